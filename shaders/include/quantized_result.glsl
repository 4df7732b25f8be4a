// The results of quantized_matmul_coopmat, in the form that matrix_results.glsl requires.
//
// Before the include: what affine.glsl and rows.glsl need, TENSOR_IN(0, x, …),
// TENSOR_OUT and QUAD_BITS_OUT of y, and the buffers x_exponents, w_exponents.
#ifndef QUANTIZED_RESULT_GLSL
#define QUANTIZED_RESULT_GLSL

float plain_product(uint m, uint n) {
    uint from = row_start(p.x, m);
    float sum = 0.0;
    for (uint k = 0; k < p.x.cols; k++) {
        uint g = k >> p.group_shift;
        float v = element(affine_code(p.w_offset + n * p.w_strides[0], 1, k), p.s_offset + n * p.s_strides[0] + g * p.s_strides[1],
                          p.b_offset + n * p.b_strides[0] + g * p.b_strides[1], p.group_shift);
        sum += x_load(from + k * p.x.col_stride) * v;
    }
    return sum;
}

#define RESULT_M p.x.rows
#define RESULT_N p.n
#define RESULT_OFFSET p.out_offset
uint place(uint m, uint n) { return p.out_offset + m * p.n + n; }
int a_exponent(uint m) { return x_exponents[m]; }
int b_exponent(uint n) { return w_exponents[n]; }

#include "matrix_results.glsl"

#endif
