// out = gate * sigmoid(gate) * up, any layouts.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, gate, 1)
TENSOR_IN(1, up, 2)
TENSOR_OUT(2, y, 3)
QUAD_BITS_IN(0, gate)
QUAD_BITS_IN(1, up)
QUAD_BITS_OUT(2, y)
layout(constant_id = 4) const uint RANK = 1;
layout(constant_id = 5) const uint QUADS = 0; // with it, the walk counts quads
layout(constant_id = 6) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk3Params p; };

#define WALK_ARRAYS 3
#define WALK_BATCH BATCH
#include "walk.glsl"

uvec4 load_gate(uint at) {
    if (QUADS == 0u || (QUADS & QUADS_SINGLE_A) != 0u) {
        return uvec4(gate_bits(at));
    }
    return gate_quad_bits(4u * at);
}

uvec4 load_up(uint at) {
    if (QUADS == 0u || (QUADS & QUADS_SINGLE_B) != 0u) {
        return uvec4(up_bits(at));
    }
    return up_quad_bits(4u * at);
}

uint product(uint gate, uint up) {
    return float_to_bits(m_silu(bits_to_float(gate, gate_DT)) * bits_to_float(up, up_DT), y_DT);
}

void main() {
    BATCHES(first) {
        uvec4 u[MAX_BATCH];
        uvec4 v[MAX_BATCH];
        uint to[MAX_BATCH];
        EACH(k) {
            uvec3 at = walk(batch_item(first, k));
            to[k] = at.z;
            u[k] = load_gate(at.x);
            v[k] = load_up(at.y);
        }
        EACH(k) {
            if (!in_batch(first, k)) {
                continue;
            }
            for (uint i = 0u; i < WIDTH; i++) {
                u[k][i] = product(u[k][i], v[k][i]);
            }
            if (QUADS == 0u) {
                y_set_bits(to[k], u[k].x);
            } else {
                y_set_quad_bits(4u * to[k], u[k]);
            }
        }
    }
}
