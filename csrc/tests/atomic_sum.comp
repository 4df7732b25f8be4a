// x[0] += x[i], by atomic additions of floats: a feature that must be requested.
#version 450
#extension GL_EXT_shader_atomic_float : require

layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { float x[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i > 0u) {
        atomicAdd(x[0], x[i]);
    }
}
