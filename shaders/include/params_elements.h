// Kernels that walk over elements, and transfers of bytes. A part of types.h.
#ifndef PARAMS_ELEMENTS_H
#define PARAMS_ELEMENTS_H

// How elementwise kernels walk: element by element (0), or by quads, in which the
// first or the second input may have one element for all four.
#define QUADS_ON 1
#define QUADS_SINGLE_A 2
#define QUADS_SINGLE_B 4

// Elements of an input and an output (copy, cast, unary): walk.glsl.
struct Walk2Params {
    uint n;               // elements
    uint shape[MAX_RANK]; // axis 0 is the outermost; unused ones are 1
    uint in_strides[MAX_RANK];
    uint out_strides[MAX_RANK];
    uint in_offset;
    uint out_offset;
};

// Elements of two inputs and an output (binary, silu_mul): walk.glsl.
struct Walk3Params {
    uint n;
    uint shape[MAX_DIMS];
    uint a_strides[MAX_DIMS];
    uint b_strides[MAX_DIMS];
    uint out_strides[MAX_DIMS];
    uint a_offset;
    uint b_offset;
    uint out_offset;
};

// transfer: raw bytes between two buffers, by 32-bit words. The masks say which
// bytes of the first and the last word are written.
struct TransferParams {
    uint words;
    uint src; // words into the bindings
    uint dst;
    uint first_mask;
    uint last_mask; // if there is one word, first_mask alone counts
};

// Elements of a condition, two inputs and an output (where): walk.glsl.
struct Walk4Params {
    uint n;
    uint shape[MAX_DIMS];
    uint c_strides[MAX_DIMS];
    uint a_strides[MAX_DIMS];
    uint b_strides[MAX_DIMS];
    uint out_strides[MAX_DIMS];
    uint c_offset;
    uint a_offset;
    uint b_offset;
    uint out_offset;
};

// fill
struct FillParams {
    Walk2Params walk; // of out alone
    uint bits;
};

// arange
struct ArangeParams {
    uint n;
    uint start; // bits of a float32 or an integer
    uint step;
    uint out_offset;
    uint out_stride;
};

#endif
