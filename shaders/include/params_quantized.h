// Quantizing, dequantizing, and rows of quantized matrices. A part of types.h.
#ifndef PARAMS_QUANTIZED_H
#define PARAMS_QUANTIZED_H

// quantize: words, scales and biases are dense.
struct QuantizeParams {
    RowParams x;
    uint n;      // elements of x
    uint blocks; // workgroups
    uint group_shift;
    uint w_offset;
    uint s_offset;
    uint b_offset;
};

// dequantize: one thread per element of out, which is contiguous.
struct DequantizeParams {
    uint n;            // quads of out
    uint cols;         // of a row: K
    uint group_shift;  // log2 of the group size, as below
    uint shape[3];     // leading axes, padded in front with 1
    uint w_strides[4]; // of the leading axes, then of the last one
    uint s_strides[4];
    uint b_strides[4];
    uint w_offset;
    uint s_offset;
    uint b_offset;
    uint out_offset;
};

// quantized_gather: one thread per element of out, which is contiguous.
struct QuantizedGatherParams {
    uint n;          // quads of out
    uint cols;       // of a row: K
    uint vocabulary; // rows of w
    uint group_shift;
    uint shape[MAX_DIMS]; // of indices, the outermost first; unused ones are 1
    uint i_strides[MAX_DIMS];
    uint w_strides[2];
    uint s_strides[2];
    uint b_strides[2];
    uint i_offset;
    uint w_offset;
    uint s_offset;
    uint b_offset;
    uint out_offset;
};

#endif
