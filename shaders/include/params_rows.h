// Kernels that work along rows: norms, softmax and scan. A part of types.h.
#ifndef PARAMS_ROWS_H
#define PARAMS_ROWS_H

// layer_norm: which operands are present.
#define LAYER_NORM_WEIGHT 1
#define LAYER_NORM_BIAS 2

// layer_norm: out is dense.
struct LayerNormParams {
    RowParams x;
    uint w_offset;
    uint w_stride;
    uint b_offset;
    uint b_stride;
    uint out_offset;
    float eps;
};

// rms_norm: out is dense.
struct RMSNormParams {
    RowParams x;
    uint w_offset;
    uint w_stride;
    uint out_offset;
    float eps;
};

// scan: rows of x along its axis; out has their shape.
struct ScanParams {
    RowParams x;
    uint out_strides[3];
    uint out_col_stride;
    uint out_offset;
};

// softmax: out is dense.
struct SoftmaxParams {
    RowParams x;
    uint out_offset;
};

#endif
