// The codes of quantized weights as bytes, for products of integers: affine codes as they are, but those of 8 bits
// minus 128, and E2M1 as twice its value. E4M3 does not fit into bytes.
//
// Before the include: BITS; scales_DT and biases_DT; SMALL_SHIFT, log2 of the columns of a scale of small floats; and
// SPAN (unit_integers.glsl), which is 1 for codes of more than 4 bits and for small floats.
#ifndef CODE_BYTES_GLSL
#define CODE_BYTES_GLSL

#include "code_words.glsl"
#include "minifloat.glsl"
#include "not_finite.glsl"
#include "projection_sums.glsl"

const bool SMALL_FLOATS = scales_DT == DT_UINT8; // the modes without biases: minifloat.glsl
const bool CODE_BYTES = !SMALL_FLOATS || BITS == 4;

// The middle of the codes if products are those of codes minus it, else 0. It is subtracted from codes of 8 bits, so
// that they fit into bytes. Others stay as they are, and sums of their products begin with minus MIDDLE times the sum of
// the integers of x, so that sums of more products fit into 32 bits.
const uint MIDDLE = BITS == 8 || SPAN > 1 ? 1 << (BITS - 1) : 0;

// Whether the even ones of eight codes come first: then four of them are a masked word. Bytes are in order.
const bool EVEN_FIRST = BITS == 4;

// Twice the value of four codes of E2M1, in the low bits of v's bytes: 0, 1, 2, 3, 4, 6, 8 or 12, and a sign.
uint doubled_e2m1(uint v) {
    uint more = v & 0x03030303u & (((v >> 2) & 0x01010101u) * 3u); // what magnitudes from 4 on stand for, less themselves
    uint most = more & (more >> 1) & 0x01010101u;                  // the largest stands for 2 more
    uint magnitude = (v & 0x07070707u) + more + 2u * most;
    uint negative = magnitude & (((v >> 3) & 0x01010101u) * 15u);
    return (0x80808080u + magnitude - 2u * negative) ^ 0x80808080u;
}

// Four codes of 4 bits, in the low bits of v's bytes.
uint nibbles(uint v) { return SMALL_FLOATS ? doubled_e2m1(v) : v & 0x0f0f0f0fu; }

// 16 codes of 4 bits, and of 8 bits.
uvec4 nibble_bytes(uvec2 v) { return uvec4(nibbles(v.x), nibbles(v.x >> 4), nibbles(v.y), nibbles(v.y >> 4)); }
uvec4 byte_bytes(uvec4 v) { return v ^ 0x80808080u; }

// The sum of a span's products of such bytes with integers of unit_integers.glsl, given the sum for their highest
// digits, in units of 2^16, and that for the others. It does not depend on how integers are divided into digits.
ivec2 code_sum_parts(int high, int rest) {
    if (BITS <= 4) {
        return ivec2(0, (high << 16) + rest);
    }
    return ivec2(high + (rest >> 16), rest & 0xffff); // together they may exceed 32 bits
}

float join_code_sum(float upper, float lower) { return BITS <= 4 ? lower : fma(upper, 65536.0, lower); }

float code_sum(int high, int rest) {
    ivec2 parts = code_sum_parts(high, rest);
    return join_code_sum(float(parts.x), float(parts.y));
}

// What that sum, and that of x, are multiplied by.
vec2 byte_factors(float scale, float bias) {
    if (SMALL_FLOATS) {
        return vec2(0.5 * scale, 0.0);
    }
    return vec2(scale, MIDDLE != 0 ? fma(scale, float(MIDDLE), bias) : bias);
}

// The contribution of a span: products are those of bytes and x, sum is that of x, and scale and bias are what
// byte_factors returns.
float unit_product(float products, float scale, float bias, float sum) {
    if (SMALL_FLOATS) {
        precise float v = scale * products;
        return v;
    }
    return unit_result(products, scale, bias, sum);
}

float loaded_scale(uint bits) { return SMALL_FLOATS ? small_scale(bits, SMALL_SHIFT) : bits_to_float(bits, scales_DT); }
float loaded_bias(uint bits) { return SMALL_FLOATS ? 0.0 : bits_to_float(bits, biases_DT); }

// A weight from its code and the bits of its scale and bias.
float code_weight(uint code, uint scale, uint bias) {
    if (SMALL_FLOATS) {
        return loaded_scale(scale) * (BITS == 4 ? e2m1_to_float(code) : e4m3_to_float(code));
    }
    return affine_weight(loaded_scale(scale), code, loaded_bias(bias));
}

#endif
