// Dequantizes rows of a quantized matrix, one per index; an index out of range
// gives zeros, a negative one counts from the end. A thread computes four
// neighbours of out at a time.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 0
#define AFFINE_SPEC 1
#include "affine.glsl"
#include "quads.glsl"

TENSOR_IN(3, index, 4)
TENSOR_OUT(4, y, 5)
QUAD_BITS_OUT(4, y)
layout(constant_id = 6) const uint RANK = 1; // of indices
layout(constant_id = 7) const uint BATCH = 1;

layout(push_constant) uniform Push { QuantizedGatherParams p; };

#define WALK_ARRAYS 0
#define WALK_BATCH BATCH
#include "walk.glsl"
#include "float_quads.glsl"

uint index_at(uint i) {
    uint at = p.i_offset;
    for (uint d = RANK - 1u; d > 0u; d--) {
        uint q = i / p.shape[d];
        at += (i - q * p.shape[d]) * p.i_strides[d];
        i = q;
    }
    return at + i * p.i_strides[0];
}

vec4 quad_of_row(uint row, uint col) {
    if (row >= p.vocabulary) {
        return vec4(0.0);
    }
    uint group = col >> p.group_shift;
    return elements(affine_codes(p.w_offset + row * p.w_strides[0], p.w_strides[1], col),
                    p.s_offset + row * p.s_strides[0] + group * p.s_strides[1],
                    p.b_offset + row * p.b_strides[0] + group * p.b_strides[1], p.group_shift);
}

void main() {
    uint quads = p.cols / 4u;
    BATCHES(first) {
        uvec4 row, col;
        vec4 v[MAX_BATCH];
        EACH(k) {
            uint i = batch_item(first, k), item = i / quads;
            col[k] = 4u * (i - item * quads);
            row[k] = index_bits(index_at(item));
            if (index_DT == DT_INT32 && int(row[k]) < 0) {
                row[k] += p.vocabulary;
            }
        }
        EACH(k) v[k] = quad_of_row(row[k], col[k]);
        EACH(k) {
            if (in_batch(first, k)) {
                STORE_FLOATS(y, p.out_offset + 4u * batch_item(first, k), v[k])
            }
        }
    }
}
