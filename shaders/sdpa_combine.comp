// Attention to all keys, from the results of workgroups that each had some of them: their average by the weight of
// these keys, once all weights are relative to the same highest score. One thread per element of out.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer Part { float part[]; };
TENSOR_OUT(1, y, 1)

layout(push_constant) uniform Push { SDPACombineParams p; };

// The weight of a range's keys, relative to that of the highest score.
float weight_of(uint at, float highest) { return exp2(part[at + p.dv] - highest) * part[at + p.dv + 1]; }

void main() {
    // A few rounds, as many as there are ranges in each: grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.rows * p.dv; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / p.dv;
        uint d = i - row * p.dv;
        uint from = row * p.ranges * (p.dv + 2);
        float highest = part[from + p.dv];
        for (uint r = 1; r < p.ranges; r++) {
            highest = max(highest, part[from + r * (p.dv + 2) + p.dv]);
        }
        float weight = 0.0;
        for (uint r = 0; r < p.ranges; r++) {
            weight += weight_of(from + r * (p.dv + 2), highest);
        }
        float average = 0.0;
        for (uint r = 0; r < p.ranges; r++) { // shares of the weight, so that no sum is larger than the largest element
            uint at = from + r * (p.dv + 2);
            average += weight_of(at, highest) / weight * part[at + d];
        }
        y_store(p.out_offset + i, weight == 0.0 ? 0.0 : average);
    }
}
