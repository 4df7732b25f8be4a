// dst[start + i] = update[i], bit by bit, with the start read from the device
// and clamped so that the update fits. (A start known to the host is a copy.)
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, update, 1)
layout(set = 0, binding = 1) readonly buffer Start { int start[]; };
TENSOR_OUT(2, dst, 2)
layout(constant_id = 3) const uint DST_RANK = 1;
layout(push_constant) uniform Push { SliceUpdateParams p; };

#define ELEMENTS(i) for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)

uint first_element() {
    uint at = p.out_offset;
    for (uint d = 0u; d < DST_RANK; d++) {
        int s = clamp(start[p.start_offset + d * p.start_stride], 0, int(p.room[d]));
        at += uint(s) * p.dst_strides[d];
    }
    return at;
}

void main() {
    uint first = first_element();
    ELEMENTS(i) {
        uvec2 at = uvec2(p.in_offset, first);
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
