// Rows as float16 parts with an exponent each, 16 lanes a row, 8 elements a lane. Infinities and NaNs count as zeros,
// and the row's exponent tells that there are some.
#ifndef SPLIT_ROWS_GLSL
#define SPLIT_ROWS_GLSL

#extension GL_KHR_shader_subgroup_shuffle : require

#include "float16_parts.glsl"

const uint LANES_OF_ROW = 16;

// Replaces a number that is not finite by zero, and records it.
float finite_or_zero(float v, inout uint flags) {
    bool finite = magnitude_bits(v) < INF_BITS;
    flags |= uint(!finite);
    return finite ? v : 0.0;
}
vec4 finite4(vec4 v, inout uint flags) {
    return vec4(finite_or_zero(v.x, flags), finite_or_zero(v.y, flags), finite_or_zero(v.z, flags),
                finite_or_zero(v.w, flags));
}

// Scales a lane's elements by its row's power of two and returns the row's exponent. Called by all lanes of the row
// together.
int scale_run(inout vec4 a, inout vec4 b) {
    uint flags = 0;
    a = finite4(a, flags);
    b = finite4(b, flags);
    vec4 m = max(abs(a), abs(b));
    float top = max(max(m.x, m.y), max(m.z, m.w));
    [[unroll]] for (uint i = 1; i < LANES_OF_ROW; i *= 2) {
        top = max(top, subgroupShuffleXor(top, i));
        flags |= subgroupShuffleXor(flags, i);
    }
    int n = row_exponent(top);
    if (n >= SPLIT_COMMON && n <= SPLIT_COMMON + SPLIT_SPARE) {
        n = SPLIT_COMMON;
    }
    float factor = exp2_int(n >> 1);
    float other = exp2_int(n - (n >> 1));
    a = a * factor * other;
    b = b * factor * other;
    return (magnitude_bits(top) == 0u ? SPLIT_ZERO : -n) + (flags != 0u ? SPLIT_NOT_FINITE : 0);
}

#endif
