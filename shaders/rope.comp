// Rotary position embedding. A thread handles a pair of elements, or an element
// that is only copied, in HEADS heads, all of which have the same angle.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "tensor.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) readonly buffer Positions { int positions[]; };
layout(set = 0, binding = 2) readonly buffer Freqs { float freqs[]; };
TENSOR_OUT(3, y, 2)
layout(constant_id = 3) const uint TRADITIONAL = 0;
layout(constant_id = 4) const uint HAS_POSITIONS = 0;
layout(constant_id = 5) const uint HAS_FREQS = 0;
layout(constant_id = 6) const uint HEADS = 1; // at most MOST_HEADS

#define MOST_HEADS 8

layout(push_constant) uniform Push { RoPEParams p; };

#include "rotary.glsl"

float angle_of(uint batch, uint t, uint i) {
    int start = p.offset;
    if (HAS_POSITIONS != 0) {
        start = positions[p.position_offset + batch * p.position_stride];
    }
    // Positions may exceed the highest int32, so only a sum with a negative start is an int.
    precise float position = (start < 0 ? float(start + int(t)) : float(uint(start) + t)) * p.scale;
    if (HAS_FREQS != 0) {
        return quotient(position, freqs[p.freqs_offset + i * p.freqs_stride]);
    }
    return position * inverse_frequency(i);
}

void main() {
    uint half_dims = p.dims / 2u;
    uint per_row = p.cols - half_dims;
    uint blocks = (p.heads + HEADS - 1u) / HEADS;
    // A few rounds (csrc/ops/rounds.hpp): grid_elements launches enough threads.
    for (uint at = gl_GlobalInvocationID.x; at < p.n; at += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = at / per_row;
        uint i = at - row * per_row;
        uint block = row / p.steps;
        uint t = row - block * p.steps;
        uint batch = block / blocks;
        uint head0 = (block - batch * blocks) * HEADS;
        bool turns = i < half_dims;
        uint first = !turns ? i + half_dims : TRADITIONAL != 0 ? 2u * i : i;
        uint second = !turns ? first : first + (TRADITIONAL != 0 ? 1u : half_dims);
        uvec2 v[MOST_HEADS]; // all are loaded before the first is stored
        [[unroll]] for (uint h = 0u; h < HEADS; h++) {
            uint head = min(head0 + h, p.heads - 1u);
            uint from = p.x_offset + batch * p.x_strides[0] + head * p.x_strides[1] + t * p.x_strides[2];
            v[h] = uvec2(x_bits(from + first * p.x_strides[3]), x_bits(from + second * p.x_strides[3]));
        }
        vec2 sc = turns ? m_sincos(angle_of(batch, t, i)) : vec2(0.0);
        [[unroll]] for (uint h = 0u; h < HEADS; h++) {
            uint to = p.out_offset + ((batch * p.heads + head0 + h) * p.steps + t) * p.cols;
            if (head0 + h >= p.heads) {
                break;
            }
            if (!turns) {
                y_set_bits(to + first, v[h].x);
                continue;
            }
            float a = bits_to_float(v[h].x, x_DT), b = bits_to_float(v[h].y, x_DT);
            y_store(to + first, a * sc.y - b * sc.x);
            y_store(to + second, a * sc.x + b * sc.y);
        }
    }
}
