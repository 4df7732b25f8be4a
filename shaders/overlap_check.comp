// Finds out whether a device starts the workgroups of one dispatch before those of
// the next, without a barrier between them (csrc/runtime/overlap_check.hpp): the
// first dispatch, of more workgroups than the device runs at a time, stores a word
// for each of them; those of the second, with AWAITS, wait until all words are
// there, but not for ever. No op runs it.
//
// variants: base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint AWAITS = 0;

layout(set = 0, binding = 0) volatile coherent buffer Words { uint words[]; };
layout(set = 0, binding = 1) buffer GaveUp { uint gave_up[]; };
layout(push_constant) uniform Push { OverlapCheckParams p; };

void main() {
    if (AWAITS == 0) {
        uint v = gl_WorkGroupID.x;
        for (uint i = 0; i < p.rounds; i++) { // something that takes a while
            v = v * 1664525u + 1013904223u;
        }
        if (gl_LocalInvocationIndex == 0) {
            words[gl_WorkGroupID.x] = v >> 1;
        }
        return;
    }
    for (uint i = gl_LocalInvocationIndex; i < p.words; i += gl_WorkGroupSize.x) {
        for (uint round = 0; words[i] == OVERLAP_MISSING; round++) {
            if (round == p.rounds) {
                atomicAdd(gave_up[0], 1);
                return;
            }
        }
    }
}
