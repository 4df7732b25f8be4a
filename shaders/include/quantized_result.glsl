// The results of quantized_matmul_coopmat, in the form that matrix_results.glsl requires.
//
// Before the include: the push constants q and p; what affine.glsl needs; x_DT; TENSOR_OUT and QUAD_BITS_OUT of
// y; and the buffers that quantized_matmul_split has written, x_parts, x_exponents and
// w_exponents.
#ifndef QUANTIZED_RESULT_GLSL
#define QUANTIZED_RESULT_GLSL

// Half of a pair in run `at` of the parts that holds element `k` of a row.
uint x_part(uint at, uint k) { return (x_parts[at][k & 3u] >> (((k >> 2) & 1u) * 16)) & 0xffffu; }

// Element k of row m of x, or of what quantized_matmul_split has made of it.
float x_element(uint m, uint k) {
    bool two = x_DT == DT_FLOAT32;
    uint at = m * q.x_runs + k / 8;
    uint first = x_part(at, k);
    uint second = two ? x_part(p.x.rows * q.x_runs + at, k) : 0u;
    int e = x_exponents[m];
    if (e == NOT_FINITE) {
        return two ? uintBitsToFloat((first << 16) | second) : bits_to_float(first, x_DT);
    }
    return scale_by(float16_to_float(first) + float16_to_float(second), e);
}

#define PLAIN_FIRST 0u
#define PLAIN_END p.x.cols
#include "plain_products.glsl"

#define RESULT_M p.x.rows
#define RESULT_N p.n
#define RESULT_OFFSET p.out_offset
uint place(uint m, uint n) { return p.out_offset + m * p.n + n; }
int a_exponent(uint m) { return x_exponents[m]; }
int b_exponent(uint n) { return w_exponents[n]; }

#include "matrix_results.glsl"

#endif
