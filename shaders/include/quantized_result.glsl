// What becomes of a sum of quantized_matmul_coopmat: it counts in units of
// 2^(exponent of x's row + exponent of w's row). Rows that float16 parts cannot
// hold are flagged by the exponent NOT_FINITE, and their results are computed anew
// in float32.
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

bool x_flagged(uint m) { return m < p.x.rows && x_exponents[m] == NOT_FINITE; }
bool w_flagged(uint n) { return n < p.n && w_exponents[n] == NOT_FINITE; }

// A result of a flagged row, if it exists.
void store_plain(uint m, uint n) {
    if (m < p.x.rows && n < p.n) {
        y_store(p.out_offset + m * p.n + n, plain_product(m, n));
    }
}

// Four neighbouring results, of no flagged row.
void store_results(uint m, uint n, vec4 v) {
    if (m >= p.x.rows || n >= p.n) {
        return;
    }
    uint to = p.out_offset + m * p.n + n;
    int e = x_exponents[m];
    uvec4 bits;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        bits[c] = float_to_bits(scale_by(v[c], clamp(e + w_exponents[min(n + c, p.n - 1)], -252, 252)), y_DT);
    }
    if (p.n % 4 == 0 && p.out_offset % 4 == 0) {
        y_set_quad_bits(to, bits);
        return;
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (n + c < p.n) {
            y_set_bits(to + c, bits[c]);
        }
    }
}

#endif
