// x[i] = x[i] * factor + 1, where factor is specialization constant 0.
#version 450
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint factor = 1;
layout(set = 0, binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform Push { uint n; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) {
        x[i] = x[i] * factor + 1u;
    }
}
