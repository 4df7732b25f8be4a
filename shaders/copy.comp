// out = in, bit by bit, any layouts. kpx::copy_array chooses the width.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(set = 0, binding = 0) readonly buffer x_Quads { uvec4 data[]; } x_quads;
layout(set = 0, binding = 1) buffer y_Quads { uvec4 data[]; } y_quads;
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint QUADS = 0; // if set, the walk counts units of four words
layout(constant_id = 5) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk2Params p; };

#define WALK_ARRAYS 2
#define WALK_BATCH BATCH
#include "walk.glsl"

void main() {
    BATCHES(first) {
        uvec4 v[MAX_BATCH];
        uint to[MAX_BATCH];
        EACH(k) {
            uvec2 at = walk(batch_item(first, k));
            to[k] = at.y;
            bool single = QUADS == 0u || (QUADS & QUADS_SINGLE_A) != 0u;
            v[k] = single ? uvec4(x_bits(at.x)) : x_quads.data[at.x];
        }
        EACH(k) {
            if (!in_batch(first, k)) {
                continue;
            }
            if (QUADS != 0u) {
                y_quads.data[to[k]] = v[k];
            } else {
                y_set_bits(to[k], v[k].x);
            }
        }
    }
}
