// out[pre, i, post] = x[pre, indices[i], post], bit by bit; out is dense. An
// index below zero counts from the end; one outside x gives zeros.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) readonly buffer Indices { uint indices[]; };
TENSOR_OUT(2, y, 2)
layout(set = 0, binding = 0) readonly buffer x_Quads { uvec4 data[]; } x_quads;
layout(set = 0, binding = 2) buffer y_Quads { uvec4 data[]; } y_quads;
layout(constant_id = 3) const uint SIGNED_INDICES = 1; // int32 indices
layout(constant_id = 4) const uint ROWS = 0;  // post consists of contiguous units of four words
layout(constant_id = 5) const uint PLAIN = 0; // there is no axis before it, and indices are contiguous
layout(constant_id = 6) const uint BATCH = 1;
layout(push_constant) uniform Push { GatherParams p; };

#define WALK_ARRAYS 0
#define WALK_BATCH BATCH
#include "walk.glsl"

// The offset of position i in three axes.
uint place(uint i, uint shape[3], uint strides[3]) {
    uint q = i / shape[2];
    uint at = (i - q * shape[2]) * strides[2];
    i = q;
    q = i / shape[1];
    return at + (i - q * shape[1]) * strides[1] + q * strides[0];
}

// Where unit i comes from, apart from the index, which is indices[y].
uvec2 source(uint i) {
    uint q = i / p.post_size;
    uint post = i - q * p.post_size;
    uint at = p.x_offset + (ROWS != 0u ? post : place(post, p.post_shape, p.post_strides));
    if (PLAIN != 0u) {
        return uvec2(at, p.index_offset + q);
    }
    uint pre = q / p.index_count;
    uint k = q - pre * p.index_count;
    return uvec2(at + place(pre, p.pre_shape, p.pre_strides), p.index_offset + place(k, p.index_shape, p.index_strides));
}

void main() {
    BATCHES(first) {
        uvec4 v[MAX_BATCH];
        uint from[MAX_BATCH];
        uint index[MAX_BATCH];
        EACH(k) {
            uvec2 at = source(batch_item(first, k));
            from[k] = at.x;
            index[k] = indices[at.y];
        }
        EACH(k) {
            uint i = index[k];
            if (SIGNED_INDICES != 0u && int(i) < 0) {
                i += p.axis_length;
            }
            bool inside = i < p.axis_length;
            v[k] = uvec4(0u);
            if (inside) {
                uint at = from[k] + i * p.axis_stride;
                v[k] = ROWS != 0u ? x_quads.data[at] : uvec4(x_bits(at));
            }
        }
        EACH(k) {
            uint i = p.out_offset + first + k * gl_WorkGroupSize.x;
            if (!in_batch(first, k)) {
                continue;
            }
            if (ROWS != 0u) {
                y_quads.data[i] = v[k];
            } else {
                y_set_bits(i, v[k].x);
            }
        }
    }
}
