#version 450

// y = factor * x + bias, one element per invocation.
layout(local_size_x_id = 0) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { float factor; float bias; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < x.length()) {
        y[i] = factor * x[i] + bias;
    }
}
