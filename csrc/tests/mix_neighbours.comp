// out[i] = in[i] + in[i + 1] (around the end): wrong at once if a dispatch does
// not wait for the one that wrote its input.
#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer In { uint src[]; };
layout(set = 0, binding = 1) writeonly buffer Out { uint dst[]; };
layout(push_constant) uniform Push { uint n; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) {
        dst[i] = src[i] + src[(i + 1u) % n];
    }
}
