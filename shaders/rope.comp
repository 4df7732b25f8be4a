// Rotary position embedding. One thread per pair of elements, and one per
// element that is only copied.
#version 450
#extension GL_GOOGLE_include_directive : require

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

layout(push_constant) uniform Push { RoPEParams p; };

#include "rotary.glsl"

float angle_of(uint batch, uint t, uint i) {
    int start = p.offset;
    if (HAS_POSITIONS != 0) {
        start = positions[p.position_offset + batch * p.position_stride];
    }
    precise float position = float(start + int(t)) * p.scale;
    if (HAS_FREQS != 0) {
        return quotient(position, freqs[p.freqs_offset + i * p.freqs_stride]);
    }
    return position * inverse_frequency(i);
}

void main() {
    uint half_dims = p.dims / 2u;
    uint per_row = p.cols - half_dims;
    // Fewer than 65,535 times: grid_elements launches enough threads.
    for (uint at = gl_GlobalInvocationID.x; at < p.n; at += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = at / per_row;
        uint i = at - row * per_row;
        uint head = row / p.steps;
        uint t = row - head * p.steps;
        uint batch = head / p.heads;
        uint from = p.x_offset + batch * p.x_strides[0] + (head - batch * p.heads) * p.x_strides[1] + t * p.x_strides[2];
        uint to = p.out_offset + row * p.cols;
        if (i >= half_dims) {
            uint col = i + half_dims;
            y_set_bits(to + col, x_bits(from + col * p.x_strides[3]));
            continue;
        }
        uint first = TRADITIONAL != 0 ? 2u * i : i;
        uint second = first + (TRADITIONAL != 0 ? 1u : half_dims);
        vec2 sc = m_sincos(angle_of(batch, t, i));
        float a = x_load(from + first * p.x_strides[3]);
        float b = x_load(from + second * p.x_strides[3]);
        y_store(to + first, a * sc.y - b * sc.x);
        y_store(to + second, a * sc.x + b * sc.y);
    }
}
