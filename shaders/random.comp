// Random numbers, four per thread and turn, as defined in fallback/random.go.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"
#include "math.glsl"
#include "philox.glsl"
#include "float_quads.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer State { uint state[]; };
TENSOR_OUT(1, y, 1)
QUAD_BITS_OUT(1, y)
layout(constant_id = 2) const uint KIND = RANDOM_UNIFORM;
layout(push_constant) uniform Push { RandomParams p; };

uint state_word(uint i) { return state[p.state_offset + i * p.state_stride]; }

// A word's upper bits as a number in [0, 1), exactly.
float unit(uint w) { return float(w >> 8) * 5.9604644775390625e-8; }

float uniform_of(uint w) {
    precise float scaled = unit(w) * p.scale; // rounded before the sum
    precise float v = p.first + scaled;
    return min(v, p.limit);
}

// Two normal numbers (Box and Muller). The angle is a turn's 2^-32 times w.y.
vec2 normal_of(uvec2 w) {
    float radius = sqrt(max(-2.0 * m_log(unit(w.x) + 5.9604644775390625e-8), 0.0));
    uint quadrant = (w.y + 0x20000000u) >> 30;
    float r = float(int(w.y - (quadrant << 30))) * 1.46291807926715968e-9; // 2*pi / 2^32
    vec2 v = vec2(cos_poly(r), sin_poly(r));
    if ((quadrant & 1u) != 0u) {
        v = vec2(-v.y, v.x);
    }
    return p.first + p.scale * (radius * ((quadrant & 2u) != 0u ? -v : v));
}

void main() {
    uvec2 key = uvec2(state_word(0u), state_word(1u));
    uvec3 counter = uvec3(state_word(2u), state_word(3u), PHILOX_RANDOM + KIND);
    uint quads = (p.n - 1u) / 4u + 1u;
    for (uint i = gl_GlobalInvocationID.x; i < quads; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uvec4 w = philox(uvec4(i, counter), key);
        vec4 v;
        if (KIND == RANDOM_UNIFORM) {
            v = vec4(uniform_of(w.x), uniform_of(w.y), uniform_of(w.z), uniform_of(w.w));
        } else {
            v = vec4(normal_of(w.xy), normal_of(w.zw));
        }
        uint at = p.out_offset + 4u * i;
        if (p.n - 4u * i >= 4u) {
            STORE_FLOATS(y, at, v)
            continue;
        }
        for (uint k = 0u; k < p.n - 4u * i; k++) {
            y_store(at + k, v[k]);
        }
    }
}
