// Products of quantized weights in float32, one element after the other: for results that cannot be computed otherwise.
//
// Before the include: the push constants p, a QuantizedMatMulParams; what affine.glsl needs; float x_element(m, k); and
// PLAIN_FIRST and PLAIN_END, the range of columns. As parameters of a function, these made
// quantized_matmul_coopmat three to five times as slow on NVIDIA's driver.
#ifndef PLAIN_PRODUCTS_GLSL
#define PLAIN_PRODUCTS_GLSL

// The sum over these columns of x[m, k] * w[n, k].
float plain_product(uint m, uint n) {
    float sum = 0.0;
    for (uint k = PLAIN_FIRST; k < PLAIN_END; k++) {
        uint g = k >> p.group_shift;
        float v = element(affine_code(p.w_offset + n * p.w_strides[0], 1, k), p.s_offset + n * p.s_strides[0] + g * p.s_strides[1],
                          p.b_offset + n * p.b_strides[0] + g * p.b_strides[1], p.group_shift);
        sum += x_element(m, k) * v;
    }
    return sum;
}

#endif
