// The matrices of projection_coopmat, projection_parts and projection_fragments: bindings of a matrix, its scales and
// biases, and its result, from slot on; and weight0, weight1 and so on, a single weight of it.
//
// Before the include: code_bytes.glsl; GROUP_SHIFT and UNIT_SCALES; y_DT.
#ifndef PROJECTION_MATRICES_GLSL
#define PROJECTION_MATRICES_GLSL

#define PROJECTION_MATRIX(i, slot) \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block1 { uint data[]; } w##i##_1; \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block2 { uvec2 data[]; } w##i##_2; \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block4 { uvec4 data[]; } w##i; \
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
    float weight##i(uint row, uint unit, uint code) { \
        uint at = p.sets[i].w_offset + row * p.sets[i].w_stride + unit * BITS; \
        uint group = (unit >> GROUP_SHIFT) * UNIT_SCALES + code / 16 * (UNIT_SCALES - 1); \
        uint bias = SMALL_FLOATS ? 0u : biases##i##_bits(p.sets[i].b_offset + row * p.sets[i].b_stride + group); \
        uint scale = scales##i##_bits(p.sets[i].s_offset + row * p.sets[i].s_stride + group); \
        return code_weight(CODE_AT(w##i, at, code * BITS), scale, bias); \
    }

PROJECTION_MATRIX(0, 1)
PROJECTION_MATRIX(1, 5)
PROJECTION_MATRIX(2, 9)

#endif
