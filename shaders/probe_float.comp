// Measures the peak rate of float32 arithmetic: each thread has eight
// independent sums. No op runs it; bench --ops compares the ops with it.
//
// variants: base
#version 450
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 1) buffer Out { float y[]; };
layout(push_constant) uniform Push { uint rounds; };
layout(set = 0, binding = 0) readonly buffer In { float x[]; };

void main() {
    float a = x[gl_LocalInvocationID.x & 63u];
    float b = x[64u + (gl_LocalInvocationID.x & 63u)];
    float sums[8];
    [[unroll]] for (uint k = 0u; k < 8u; k++) {
        sums[k] = float(k);
    }
    for (uint i = 0u; i < rounds; i++) {
        [[unroll]] for (uint k = 0u; k < 8u; k++) {
            sums[k] = sums[k] * a + b;
        }
    }
    [[unroll]] for (uint k = 1u; k < 8u; k++) {
        sums[0] += sums[k];
    }
    y[gl_LocalInvocationID.x & 255u] = sums[0];
}
