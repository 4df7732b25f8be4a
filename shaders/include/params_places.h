// Kernels that put elements elsewhere: gather, pad, scatter and slices. A part of types.h.
#ifndef PARAMS_PLACES_H
#define PARAMS_PLACES_H

// gather: x is [pre, axis, post], out [pre, indices, post] and dense.
struct GatherParams {
    uint n; // elements of out
    uint post_size;
    uint index_count;
    uint axis_length;
    uint axis_stride;
    uint pre_shape[3];
    uint pre_strides[3];
    uint post_shape[3];
    uint post_strides[3];
    uint index_shape[3];
    uint index_strides[3];
    uint x_offset;
    uint index_offset;
    uint out_offset;
};

// slice_update and slice with the start on the device.
struct SliceUpdateParams {
    uint n;        // elements that move
    uint shape[3]; // their inner axes; the outermost of the four needs no length
    uint in_strides[4];
    uint out_strides[4];
    uint in_offset;
    uint out_offset;
    uint room[MAX_RANK];    // the largest start of each axis
    uint strides[MAX_RANK]; // of the array that contains the part
    uint start_offset;
    uint start_stride;
};

// The most axes that the pad kernel distinguishes.
#define PAD_DIMS 5

// pad: out is dense.
struct PadParams {
    uint n;               // elements of out
    uint shape[PAD_DIMS]; // of out, the outermost first; unused ones are 1
    uint low[PAD_DIMS];
    uint x_shape[PAD_DIMS];
    uint x_strides[PAD_DIMS];
    uint x_offset;
    uint out_offset;
    uint bits;
};

// gather_axis: a is x without the axis, b the indices.
struct GatherAxisParams {
    Walk3Params walk;
    uint axis_length;
    uint axis_stride;
};

// scatter, scatter_mark: everything is dense.
struct ScatterParams {
    uint n;      // elements of updates; scatter_mark: of indices
    uint count;  // updates along the axis
    uint post;   // elements after the axis
    uint places; // along the axis of out
    uint index_offset;
    uint updates_offset;
    uint out_offset;
    uint marks_offset;
    uint heads_offset; // of lists of places' updates: the first one plus one
};

#endif
