// The reduce kernel. A part of types.h.
#ifndef PARAMS_REDUCE_H
#define PARAMS_REDUCE_H

// Whether a launch of the reduce kernel reads elements or partial results, and which of them it writes.
#define STAGE_WHOLE 0
#define STAGE_TO_PARTS 1
#define STAGE_FROM_PARTS 2

// reduce: x is [outer…, inner…], out [outer…] and dense. Axes are padded in front with 1.
struct ReduceParams {
    uint rows;          // results
    uint cols;          // elements of each
    uint parts;         // parts of each, reduced separately
    uint run;           // columns of a part; with more than one, a multiple of 4 * lanes
    uint lanes;         // threads of a part, a power of two
    uint adjacent_rows; // whether neighbouring threads take neighbouring rows, not columns
    uint quads;         // whether four columns from a multiple of 4 on can be read at once
    uint outer_shape[MAX_DIMS];
    uint outer_strides[MAX_DIMS];
    uint inner_rank; // axes in use, at least 1
    uint inner_shape[MAX_DIMS];
    uint inner_strides[MAX_DIMS];
    uint offset;
    uint out_offset;
    float count; // of elements that a mean divides by
};

#endif
