// Products of matrices, dense and quantized. A part of types.h.
#ifndef PARAMS_PRODUCTS_H
#define PARAMS_PRODUCTS_H

// quantized_matmul: out [rows, n] is contiguous.
struct QuantizedMatMulParams {
    RowParams x;
    uint n;
    uint group_shift;
    uint w_strides[2]; // of w as it is stored: rows, words
    uint s_strides[2];
    uint b_strides[2];
    uint w_offset;
    uint s_offset;
    uint b_offset;
    uint out_offset;
    uint rows_per_group; // quantized_matmul_vec: rows of w that a workgroup takes
};

// quantized_matmul_split, which prepares scales and biases, and x, for quantized_matmul_coopmat and
// quantized_matmul_fragments.
struct QuantizedMatMulScalesParams {
    uint n;
    uint groups; // of a row
    uint group_shift;
    uint more; // columns after those of x, for the biases
    uint s_strides[2];
    uint b_strides[2];
    uint s_offset;
    uint b_offset;
};
// made_rows.glsl
struct MadeRowsParams {
    RowParams x;
    RowParams factors; // the gain of a norm, or the rows that SiLU(x) is multiplied by
    float eps;
};
struct QuantizedMatMulSplitParams {
    MadeRowsParams rows;
    QuantizedMatMulScalesParams weights;
    uint x_runs; // of 8 elements, in a row of x with what is added
};
// What is made of x first.
#define ROWS_PLAIN 0
#define ROWS_NORMED 1 // RMSNorm(x)
#define ROWS_GAINED 2 // RMSNorm(x) * factors
#define ROWS_GATED 3  // SiLU(x) * factors
struct QuantizedMatMulMatrixParams {
    QuantizedMatMulParams product;
    uint x_runs;     // of 8 elements, in a row of x with what quantized_matmul_split added
    uint split_runs; // of them that a workgroup takes; quantized_matmul_fragments: chunks
    uint residual_offset;
    uint more; // columns added to those of x
};
// quantized_matmul_limbs, which prepares x for quantized_matmul_bytes_coopmat.
struct QuantizedMatMulLimbsParams {
    MadeRowsParams rows;
    QuantizedMatMulScalesParams weights;
    uint row_parts; // workgroups for a row; one if it is normed
};
struct QuantizedMatMulBytesParams {
    QuantizedMatMulParams product;
    uint split_steps; // of DEPTH columns that a workgroup takes
    uint residual_offset;
};
// How often the columns for the biases are repeated: once for each product of parts of x and w, except that of two
// low parts.
#define BIAS_COPIES(x_parts, w_parts) (5u - (x_parts) - (w_parts))
// The exponent of a row that has infinities or NaNs.
#define NOT_FINITE 0x7fffffff

// projection: a matrix of n rows and its result.
struct ProjectionSet {
    uint n;
    uint w_offset;
    uint w_stride; // of rows, as below
    uint s_offset;
    uint s_stride;
    uint b_offset;
    uint b_stride;
    uint out_offset;
};
struct ProjectionParams {
    ProjectionSet sets[3];
    uint starts[2]; // first workgroups of the second and third
    uint x_rows;
    uint x_offset;
    uint x_stride; // of its rows
    uint gain_offset;
    uint residual_offset; // its rows and those of the results are contiguous
    float eps;
};

// projection_rows: x for projection_coopmat, which takes ProjectionParams; its groups are tiles of rows of matrices.
struct ProjectionRowsParams {
    uint x_rows;
    uint x_offset;
    uint x_stride; // of its rows
    uint gain_offset;
};

// projection_held: a turn is one of its steps through the rows of the matrices.
struct ProjectionHeldParams {
    ProjectionSet sets[3];
    uint starts[2]; // first turns of the second and third
    uint x_rows;    // contiguous
    uint x_offset;
    uint gain_offset;
    uint residual_offset; // its rows and those of the results are contiguous
    uint groups;          // workgroups for a block of rows of x
    float eps;
};

// The layout of a chunk of 4 units of a block of that many rows, in quads: three matrices of bytes with a row of 128
// columns in 9 quads, so that rows begin in different banks of shared memory; then for each row of each unit the number
// that the integers are multiples of and the sum, both of the unit's span (unit_integers.glsl), what a span's sums of
// products begin with, and the unit's sum of squares.
#define X_PITCH 9
#define X_MULTIPLES(side) (3 * X_PITCH * (side))
#define X_SUMS(side) (X_MULTIPLES(side) + (side))
#define X_STARTS(side) (X_SUMS(side) + (side))
#define X_SQUARES(side) (X_STARTS(side) + (side))
#define X_CHUNK(side) (X_SQUARES(side) + (side))

// matmul: out [batches, m, n] is contiguous.
struct MatMulParams {
    uint m;
    uint n;
    uint k;
    uint batch;      // of the first of this dispatch
    uint shape[3];   // batch axes, the outermost first; unused ones are 1
    uint a_batch[3]; // strides of the batch axes
    uint b_batch[3];
    uint a_strides[2]; // m, k
    uint b_strides[2]; // k, n
    uint a_offset;
    uint b_offset;
    uint out_offset;
};
// matmul_split: rows of one operand for matmul_coopmat.
struct MatMulSplitParams {
    uint rows;
    uint k;
    uint batches;
    uint shape[3]; // batch axes, as in MatMulParams, but 1 if the operand is broadcast
    uint batch_strides[3];
    uint row_stride;
    uint k_stride;
    uint offset;
    uint runs; // of 8 elements, in a row of parts
};
struct MatMulMatrixParams {
    MatMulParams product;
    uint runs;       // as above
    uint a_parts[3]; // strides of the batch axes in rows of parts
    uint b_parts[3];
    uint a_rows; // of all matrices that were split
    uint b_rows;
};

// matmul_vec: a few rows of a times rows of b that are contiguous along k; out
// [batches, m, n] is contiguous.
struct MatMulVecParams {
    MatMulParams matmul;
    uint rows_per_group; // columns of b that a workgroup takes
};

#endif
