// out = in in another type, any layouts. The rules are convert_bits's.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
QUAD_BITS_IN(0, x)
QUAD_BITS_OUT(1, y)
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint QUADS = 0; // with it, the walk counts quads
layout(constant_id = 5) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk2Params p; };

#define WALK_ARRAYS 2
#define WALK_BATCH BATCH
#include "walk.glsl"

uvec4 load(uint at) {
    if (QUADS == 0u || (QUADS & QUADS_SINGLE_A) != 0u) {
        return uvec4(x_bits(at));
    }
    return x_quad_bits(4u * at);
}

void main() {
    BATCHES(first) {
        uvec4 v[MAX_BATCH];
        uint to[MAX_BATCH];
        EACH(k) {
            uvec2 at = walk(batch_item(first, k));
            to[k] = at.y;
            v[k] = load(at.x);
        }
        EACH(k) {
            if (!in_batch(first, k)) {
                continue;
            }
            for (uint i = 0u; i < WIDTH; i++) {
                v[k][i] = convert_bits(v[k][i], x_DT, y_DT);
            }
            if (QUADS == 0u) {
                y_set_bits(to[k], v[k].x);
            } else {
                y_set_quad_bits(4u * to[k], v[k]);
            }
        }
    }
}
