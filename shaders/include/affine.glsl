// Matrices in affine quantization: element i of a row is
// scale[i / group] * code[i] + bias[i / group]. The codes of a row are one
// little-endian bit stream of BITS each (2, 3, 4, 5, 6 or 8), lowest bits first,
// in 32-bit words; 3, 5 and 6 bits cross words. 32 codes fill BITS words, and a
// group is a multiple of 32 codes, so a unit of 32 codes starts at a word and
// has one scale and one bias.
//
// In the modes without biases the scales are uint8, and an element is scale *
// value(code): see minifloat.glsl. BITS and the group size determine the mode:
// E2M1 codes have 4 bits, E4M3 ones 8; groups of 16 have E4M3 scales, groups of 32
// E8M0 ones. A placeholder is bound for the biases.
//
// Before the include: #define AFFINE_SLOT, the binding of the words (scales and
// biases follow), and AFFINE_SPEC, the first of three specialization constants:
// dtypes of scales and biases, BITS.
#ifndef AFFINE_GLSL
#define AFFINE_GLSL

#extension GL_EXT_control_flow_attributes : require

#include "tensor.glsl"
#include "minifloat.glsl"

layout(set = 0, binding = AFFINE_SLOT) readonly buffer w_Block { uint data[]; } w;
layout(set = 0, binding = AFFINE_SLOT) readonly buffer w_Block2 { uvec2 data[]; } w_2;
layout(set = 0, binding = AFFINE_SLOT) readonly buffer w_Block4 { uvec4 data[]; } w_4;
TENSOR_IN(AFFINE_SLOT + 1, scales, AFFINE_SPEC)
TENSOR_IN(AFFINE_SLOT + 2, biases, AFFINE_SPEC + 1)
layout(constant_id = AFFINE_SPEC + 2) const uint BITS = 4;

const uint CODE_MASK = (1u << BITS) - 1u;
const uint FRACTION_SHIFT = 23u - BITS; // where a code is placed in a float's mantissa
#define FRACTION_SCALE float(1u << BITS)

// Code i of the row whose words start at `row`, `stride` apart.
uint affine_code(uint row, uint stride, uint i) {
    uint bit = i * BITS;
    uint at = row + (bit >> 5) * stride;
    uint shift = bit & 31u;
    uint v = w.data[at] >> shift;
    if (shift + BITS > 32u) {
        v |= w.data[at + stride] << (32u - shift);
    }
    return v & CODE_MASK;
}

// Codes i to i + 3 of a row; i is a multiple of 4.
uvec4 affine_codes(uint row, uint stride, uint i) {
    uint bit = i * BITS;
    uint at = row + (bit >> 5) * stride;
    uint shift = bit & 31u;
    uint low = w.data[at] >> shift; // at most 32 bits hold four codes
    if (BITS != 2u && BITS != 4u && BITS != 8u && shift + 4u * BITS > 32u) {
        low |= w.data[at + stride] << (32u - shift);
    }
    return uvec4(low, low >> BITS, low >> (2u * BITS), low >> (3u * BITS)) & CODE_MASK;
}

// Whether the mode is one without biases.
#define SMALL_FLOATS (scales_DT == DT_UINT8)

float code_value(uint code) {
    return !SMALL_FLOATS ? float(code) : BITS == 4u ? e2m1_to_float(code) : e4m3_to_float(code);
}

// Scale and bias of a group of 2^group_shift; a scale below 2^-126 may become 0.
float group_scale(uint at, uint group_shift) {
    return SMALL_FLOATS ? small_scale(scales_bits(at), group_shift) : scales_load(at);
}
float group_bias(uint at) { return SMALL_FLOATS ? 0.0 : biases_load(at); }

// The element of a code; without biases it is exact, however small the scale.
float element(uint code, uint scale_at, uint bias_at, uint group_shift) {
    if (SMALL_FLOATS && group_shift != 4u) {
        return times_e8m0(code_value(code), scales_bits(scale_at));
    }
    return group_scale(scale_at, group_shift) * code_value(code) + group_bias(bias_at);
}

// The elements of four codes of one group.
vec4 elements(uvec4 codes, uint scale_at, uint bias_at, uint group_shift) {
    vec4 v;
    if (SMALL_FLOATS && group_shift != 4u) {
        uint scale = scales_bits(scale_at);
        for (uint i = 0u; i < 4u; i++) {
            v[i] = times_e8m0(code_value(codes[i]), scale);
        }
        return v;
    }
    float scale = group_scale(scale_at, group_shift), bias = group_bias(bias_at);
    for (uint i = 0u; i < 4u; i++) {
        v[i] = scale * code_value(codes[i]) + bias;
    }
    return v;
}

// 1 + code / 2^BITS, for the code at bit `shift` of v. Putting bits into the
// mantissa of 1.0 is cheaper than converting an integer to float.
float affine_fraction(uint v, uint shift) {
    uint placed = shift > FRACTION_SHIFT ? v >> (shift - FRACTION_SHIFT) : v << (FRACTION_SHIFT - shift);
    return uintBitsToFloat((placed & (CODE_MASK << FRACTION_SHIFT)) | 0x3f800000u);
}

#endif
