// Raw bytes from one buffer to another: uploads and downloads, between a staging
// buffer and storage. Each invocation moves four words; the masks preserve the
// neighbours of a range that starts or ends inside a word.
//
// variants: base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x = 64) in;

layout(set = 0, binding = 0) readonly buffer Src { uint src[]; };
layout(set = 0, binding = 1) buffer Dst { uint dst[]; };
layout(push_constant) uniform Push { TransferParams p; };

uint written_bytes(uint i) {
    if (i == 0u) {
        return p.first_mask;
    }
    return i == p.words - 1u ? p.last_mask : 0xffffffffu;
}

void main() {
    uint group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
    uint base = group * 256u + gl_LocalInvocationID.x;
    for (uint k = 0u; k < 4u; k++) {
        uint i = base + k * 64u;
        if (i >= p.words) {
            return;
        }
        uint mask = written_bytes(i);
        uint v = src[p.src + i];
        if (mask != 0xffffffffu) {
            v = (v & mask) | (dst[p.dst + i] & ~mask);
        }
        dst[p.dst + i] = v;
    }
}
