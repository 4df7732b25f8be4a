// dst[start + i] = update[i], bit by bit, with the start read from the device
// and clamped so that the part fits; or, where FROM_START is set, dst[i] =
// update[start + i]. (A start known to the host is a copy.)
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, update, 1)
layout(set = 0, binding = 1) readonly buffer Start { int start[]; };
TENSOR_OUT(2, dst, 2)
layout(constant_id = 3) const uint START_RANK = 1;
layout(constant_id = 4) const uint FROM_START = 0; // the start is in update
layout(push_constant) uniform Push { SliceUpdateParams p; };

#define ELEMENTS(i) for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)

uint shift() {
    uint at = 0u;
    for (uint d = 0u; d < START_RANK; d++) {
        int s = clamp(start[p.start_offset + d * p.start_stride], 0, int(p.room[d]));
        at += uint(s) * p.strides[d];
    }
    return at;
}

void main() {
    uint by = shift();
    uvec2 first = uvec2(p.in_offset, p.out_offset) + (FROM_START != 0u ? uvec2(by, 0u) : uvec2(0u, by));
    ELEMENTS(i) {
        uvec2 at = first;
        uint rest = i;
        for (uint d = 3u; d > 0u; d--) {
            uint q = rest / p.shape[d - 1u];
            at += (rest - q * p.shape[d - 1u]) * uvec2(p.in_strides[d], p.out_strides[d]);
            rest = q;
        }
        at += rest * uvec2(p.in_strides[0], p.out_strides[0]);
        dst_set_bits(at.y, update_bits(at.x));
    }
}
