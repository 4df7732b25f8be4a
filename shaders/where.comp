// out = condition ? a : b, bit by bit.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, c, 1)
TENSOR_IN(1, a, 2)
TENSOR_IN(2, b, 3)
TENSOR_OUT(3, y, 4)
QUAD_BITS_IN(0, c)
QUAD_BITS_IN(1, a)
QUAD_BITS_IN(2, b)
QUAD_BITS_OUT(3, y)
layout(constant_id = 5) const uint RANK = 1;
layout(constant_id = 6) const uint QUADS = 0; // with it, the walk counts quads
layout(constant_id = 7) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk4Params p; };

#define WALK_ARRAYS 4
#define WALK_BATCH BATCH
#include "walk.glsl"

// Whether input i counts quads too.
bool by_quads(uint i) { return QUADS != 0u && (QUADS & (QUADS_SINGLE_A << i)) == 0u; }

uvec4 load_c(uint at) { return by_quads(0u) ? c_quad_bits(4u * at) : uvec4(c_bits(at)); }
uvec4 load_a(uint at) { return by_quads(1u) ? a_quad_bits(4u * at) : uvec4(a_bits(at)); }
uvec4 load_b(uint at) { return by_quads(2u) ? b_quad_bits(4u * at) : uvec4(b_bits(at)); }

void main() {
    BATCHES(first) {
        uvec4 c[MAX_BATCH];
        uvec4 a[MAX_BATCH];
        uvec4 b[MAX_BATCH];
        uint to[MAX_BATCH];
        EACH(k) {
            uvec4 at = walk(batch_item(first, k));
            to[k] = at.w;
            c[k] = load_c(at.x);
            a[k] = load_a(at.y);
            b[k] = load_b(at.z);
        }
        EACH(k) {
            if (!in_batch(first, k)) {
                continue;
            }
            uvec4 v = mix(b[k], a[k], notEqual(c[k], uvec4(0u)));
            if (QUADS == 0u) {
                y_set_bits(to[k], v.x);
            } else {
                y_set_quad_bits(4u * to[k], v);
            }
        }
    }
}
