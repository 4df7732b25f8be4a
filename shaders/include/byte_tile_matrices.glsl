// The matrices of projection_coopmat and projection_held. Which of them a workgroup or a team handles may be known on
// the device only; only loads depend on it, not the computation of addresses, so that the code is short.
//
// Before the include: SETS, GROUP_SHIFT, the dtypes, and the push constants p with sets[].
#ifndef BYTE_TILE_MATRICES_GLSL
#define BYTE_TILE_MATRICES_GLSL

#include "not_finite.glsl"

#define MATRIX(i, slot) \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block { uvec4 data[]; } w##i; \
    const uint scales##i##_DT = scales_DT; \
    const uint biases##i##_DT = biases_DT; \
    const uint y##i##_DT = y_DT; \
    TENSOR_BLOCKS(slot + 1, scales##i, readonly) \
    TENSOR_BITS(scales##i) \
    TENSOR_LOOSE_BITS(slot + 1, scales##i) \
    TENSOR_BLOCKS(slot + 2, biases##i, readonly) \
    TENSOR_BITS(biases##i) \
    TENSOR_LOOSE_BITS(slot + 2, biases##i) \
    TENSOR_BLOCKS(slot + 3, y##i, ) \
    TENSOR_STORES(y##i) \
    uvec4 w##i##_quad(uint at) { return w##i.data[at]; }

MATRIX(0, 1)
MATRIX(1, 5)
MATRIX(2, 9)

#define OF_SET(set, prefix, load, at) \
    (SETS == 1 || set == 0 ? prefix##0##load(at) : SETS == 2 || set == 1 ? prefix##1##load(at) : prefix##2##load(at))

uint codes_at(uint set, uint row, uint unit) { return (p.sets[set].w_offset + row * p.sets[set].w_stride) / 4 + unit; }
uint scale_at(uint set, uint row, uint group) { return p.sets[set].s_offset + row * p.sets[set].s_stride + group; }
uint bias_at(uint set, uint row, uint group) { return p.sets[set].b_offset + row * p.sets[set].b_stride + group; }

uvec4 unit_codes(uint set, uint at) { return OF_SET(set, w, _quad, at); }
uint loose_scale(uint set, uint at) { return OF_SET(set, scales, _loose_bits, at); }
uint loose_bias(uint set, uint at) { return OF_SET(set, biases, _loose_bits, at); }

float weight(uint set, uint row, uint unit, uint code) {
    uint word = unit_codes(set, codes_at(set, row, unit))[code / 8], group = unit >> GROUP_SHIFT;
    uint scale = OF_SET(set, scales, _bits, scale_at(set, row, group));
    uint bias = OF_SET(set, biases, _bits, bias_at(set, row, group));
    return affine_weight(bits_to_float(scale, scales_DT), (word >> (code % 8 * 4)) & 15u, bits_to_float(bias, biases_DT));
}

#endif
