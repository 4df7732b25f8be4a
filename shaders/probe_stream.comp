// Measures the peak rate of memory: out = in, 16 bytes at a time, with four
// loads of each thread in flight. No op runs it; bench --ops compares the ops
// with it.
//
// variants: base
#version 450
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer In { uvec4 x[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uvec4 y[]; };
layout(push_constant) uniform Push { uint n; }; // a multiple of four times the workgroup

void main() {
    uint at = gl_WorkGroupID.x * gl_WorkGroupSize.x * 4u + gl_LocalInvocationID.x;
    if (at >= n) {
        return;
    }
    uvec4 v[4];
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        v[k] = x[at + k * gl_WorkGroupSize.x];
    }
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        y[at + k * gl_WorkGroupSize.x] = v[k];
    }
}
