// Numbers as sums of float16 parts, for products by cooperative matrices. A row
// is scaled by a power of two, so that its largest element is near the top of
// float16's range; two parts then hold 22 bits of every float32 element.
#ifndef FLOAT16_PARTS_GLSL
#define FLOAT16_PARTS_GLSL

#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

#include "math.glsl"

// The nearest number with float16's 11 bits, by the bits: a compiler may remove a
// conversion to float16 and back.
float high_part(float v) { return uintBitsToFloat((floatBitsToUint(v) + 0x1000u) & 0xffffe000u); }
vec4 high_part4(vec4 v) { return vec4(high_part(v.x), high_part(v.y), high_part(v.z), high_part(v.w)); }

// Eight float16 numbers, in pairs (a.x, b.x), (a.y, b.y), …
uvec4 pack_pairs(vec4 a, vec4 b) {
    return uvec4(packFloat2x16(f16vec2(a.x, b.x)), packFloat2x16(f16vec2(a.y, b.y)), packFloat2x16(f16vec2(a.z, b.z)),
                 packFloat2x16(f16vec2(a.w, b.w)));
}

// Eight float16 numbers in their order.
uvec4 pack_run(vec4 a, vec4 b) {
    return uvec4(packFloat2x16(f16vec2(a.xy)), packFloat2x16(f16vec2(a.zw)), packFloat2x16(f16vec2(b.xy)),
                 packFloat2x16(f16vec2(b.zw)));
}

// 2^n, or 0 if that is not a normal number; n <= 127.
float power_or_zero(int n) { return n < -126 ? 0.0 : exp2_int(n); }

// The exponent of the power of two that brings a row whose largest magnitude is top below 2^15.
int row_exponent(float top) {
    uint bits = magnitude_bits(top);
    return bits == 0u ? 0 : 14 - (max(int(bits >> 23), 1) - 127);
}

#endif
