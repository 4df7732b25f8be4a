// The results of quantized_matmul_coopmat and quantized_matmul_fragments, in the form that matrix_results.glsl requires.
//
// Before the include: the push constants q and p; what affine.glsl needs; x_DT; TENSOR_OUT and QUAD_BITS_OUT of
// y; the buffers that quantized_matmul_split has written, x_words, x_exponents and
// w_exponents; and fragment_runs.glsl.
#ifndef QUANTIZED_RESULT_GLSL
#define QUANTIZED_RESULT_GLSL

// Part `part` of element k of row m of x.
uint x_part(uint part, uint m, uint k) {
    return (x_words[part_word(part, p.x.rows, m, q.x_runs, k / 8, p.x.cols, pair_of(k))] >> (half_of(k) * 16)) & 0xffffu;
}

// Element k of row m of x, or of what quantized_matmul_split has made of it.
float x_element(uint m, uint k) {
    bool two = x_DT == DT_FLOAT32;
    uint first = x_part(0, m, k);
    uint second = two ? x_part(1, m, k) : 0u;
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
