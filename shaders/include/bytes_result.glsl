// The results of quantized_matmul_bytes_coopmat that are not finite: products of rows of x or of weights that are not, or
// sums that overflowed on the way.
//
// Before the include: the push constants p, a QuantizedMatMulParams; what affine.glsl needs; the buffers that
// quantized_matmul_limbs has written, x_planes and x_factors; and the workgroup's columns, DEPTH to a step, first_step()
// and end_step().
#ifndef BYTES_RESULT_GLSL
#define BYTES_RESULT_GLSL

#include "math.glsl"
#include "limb_planes.glsl"

uint x_byte(uint m, uint k, uint plane) {
    uint run = plane_run(p.x.rows, p.group_shift, m, k / 8u, plane);
    uint byte = plane_byte(k & 7u);
    return (x_planes[run / 2u][(run & 1u) * 2u + byte / 4u] >> (byte % 4u * 8u)) & 255u;
}

// Element k of row m of x, or of what quantized_matmul_limbs has made of it.
float x_element(uint m, uint k) {
    float multiple = x_factors[(k >> p.group_shift) * p.x.rows + m].x;
    if (is_nan(multiple)) {
        return uintBitsToFloat(x_byte(m, k, 0) | (x_byte(m, k, 1) << 8) | (x_byte(m, k, 2) << 16) | (x_byte(m, k, 3) << 24));
    }
    int integer = int(x_byte(m, k, LIMBS - 1) << 24) >> 24;
    for (uint limb = LIMBS - 1; limb-- > 0;) {
        integer = (integer << LIMB_BITS) | int(x_byte(m, k, limb));
    }
    return multiple * float(integer);
}

#define PLAIN_FIRST (first_step() * DEPTH) // the workgroup's columns
#define PLAIN_END min(end_step() * DEPTH, p.x.cols)
#include "plain_products.glsl"

// The largest of the bits of four magnitudes.
uint magnitude_bits4(vec4 v) {
    return max(max(magnitude_bits(v.x), magnitude_bits(v.y)), max(magnitude_bits(v.z), magnitude_bits(v.w)));
}

// Four neighbouring results; those that are not finite are computed element by element.
vec4 finite_or_plain(uint m, uint n, vec4 v) {
    [[dont_unroll]] for (uint c = 0; c < 4; c++) {
        if (magnitude_bits(v[c]) >= INF_BITS) {
            v[c] = plain_product(m, min(n + c, p.n - 1));
        }
    }
    return v;
}

#endif
