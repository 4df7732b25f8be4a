// The sums of a projection, shared by several kernels: in one order and rounded
// alike, so that a row has the same bits whichever kernel computes it. So the
// compiler must not contract any of these products and sums.
//
// The order: in a chunk of 4 units of 32 columns, pairs of units are added up, and then
// the pairs, unless their integers already were (unit_integers.glsl). Chunks are
// added up in the order of the columns into parts of 16 units, or slices of 8. A slice of
// 32 units is the sum of two parts, and slices are added up in the order of the columns.
// Units beyond the last are zeros.
#ifndef PROJECTION_SUMS_GLSL
#define PROJECTION_SUMS_GLSL

const uint CHUNK_UNITS = 4, PART_UNITS = 16;

vec4 gained(vec4 v, vec4 gain) {
    precise vec4 r = v * gain;
    return r;
}

// The sum of eight neighbours of a row, and that of their squares.
float sum_of_eight(vec4 a, vec4 b) {
    precise vec4 sums = a + b;
    precise float sum = (sums.x + sums.y) + (sums.z + sums.w);
    return sum;
}

float squares_of_four(vec4 v) {
    precise vec4 s = v * v;
    precise float sum = (s.x + s.y) + (s.z + s.w);
    return sum;
}

float squares_of_eight(vec4 a, vec4 b) {
    precise float sum = squares_of_four(a) + squares_of_four(b);
    return sum;
}

// The contribution of a span (unit_integers.glsl): products are those of codes and x, sum is that of x.
float unit_result(float products, float scale, float bias, float sum) {
    precise float rest = bias * sum;
    return fma(scale, products, rest);
}

// 1/rms of a row of that many columns.
float norm_factor(float squares, uint cols, float eps) {
    precise float mean = squares / float(cols);
    precise float shifted = mean + eps;
    return inversesqrt(shifted);
}

// A product of a row, and the epilogues applied to it.
float scaled_result(float sum, float factor) {
    precise float v = sum * factor;
    return v;
}

float silu_mul_result(float gate, float up) {
    precise float v = m_silu(gate) * up;
    return v;
}

#endif
