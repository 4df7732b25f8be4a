// out[r, i] = scale * code + bias, or the formula of another mode. A thread
// computes four neighbours of out at a time; threads that need the same words and
// scales get them from the cache.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 0
#define AFFINE_SPEC 1
#include "affine.glsl"
#include "quads.glsl"

TENSOR_OUT(3, y, 4)
QUAD_BITS_OUT(3, y)
layout(constant_id = 5) const uint BATCH = 1;

layout(push_constant) uniform Push { DequantizeParams p; };

#define WALK_ARRAYS 0
#define WALK_BATCH BATCH
#include "walk.glsl"
#include "float_quads.glsl"

vec4 quad(uint i) {
    uint quads = p.cols / 4u;
    uint row = i / quads;
    uint col = 4u * (i - row * quads);
    uint c1 = row / p.shape[2];
    uint c0 = c1 / p.shape[1];
    uvec3 c = uvec3(c0, c1 - c0 * p.shape[1], row - c1 * p.shape[2]);
    uint w_row = p.w_offset + c.x * p.w_strides[0] + c.y * p.w_strides[1] + c.z * p.w_strides[2];
    uint s_row = p.s_offset + c.x * p.s_strides[0] + c.y * p.s_strides[1] + c.z * p.s_strides[2];
    uint b_row = p.b_offset + c.x * p.b_strides[0] + c.y * p.b_strides[1] + c.z * p.b_strides[2];
    uint group = col >> p.group_shift;
    return elements(affine_codes(w_row, p.w_strides[3], col), s_row + group * p.s_strides[3],
                    b_row + group * p.b_strides[3], p.group_shift);
}

void main() {
    BATCHES(first) {
        vec4 v[MAX_BATCH];
        EACH(k) v[k] = quad(batch_item(first, k));
        EACH(k) {
            if (in_batch(first, k)) {
                STORE_FLOATS(y, p.out_offset + 4u * batch_item(first, k), v[k])
            }
        }
    }
}
