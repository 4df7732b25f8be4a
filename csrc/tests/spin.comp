// Keeps the device busy for a while, then writes its result.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform Push { uint rounds; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    uint v = x[i];
    for (uint r = 0u; r < rounds; r++) {
        v = v * 1664525u + 1013904223u;
    }
    x[i] = v;
}
