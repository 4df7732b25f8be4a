// Attention to all keys, from the results of workgroups that had some of them each: their average by the weight of these
// keys, once all weights are relative to the same highest score. One thread per element of out.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer Part { float part[]; };
TENSOR_OUT(1, y, 1)

layout(push_constant) uniform Push { SDPACombineParams p; };

void main() {
    // Fewer than 65,535 times: grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.rows * p.dv; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / p.dv;
        uint d = i - row * p.dv;
        uint from = row * p.splits * (p.dv + 2);
        float highest = part[from + p.dv];
        for (uint s = 1; s < p.splits; s++) {
            highest = max(highest, part[from + s * (p.dv + 2) + p.dv]);
        }
        float weight = 0.0;
        float sum = 0.0;
        for (uint s = 0; s < p.splits; s++) {
            uint at = from + s * (p.dv + 2);
            float share = exp2(part[at + p.dv] - highest) * part[at + p.dv + 1];
            weight += share;
            sum += share * part[at + d];
        }
        y_store(p.out_offset + i, weight == 0.0 ? 0.0 : sum / weight);
    }
}
