// Finds out whether a device starts the workgroups of a dispatch before those of
// the next ones, without a barrier between them (csrc/runtime/overlap_check.hpp).
// Each workgroup stores a word; with AWAITS, it first waits for all words of the
// dispatch before, as long as `rounds` allow. No op runs it.
//
// variants: base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint AWAITS = 0;
layout(constant_id = 2) const uint HELD = 1; // words of shared memory, so that few workgroups fit on a compute unit

layout(set = 0, binding = 0) volatile coherent readonly buffer Awaited { uint awaited[]; };
layout(set = 0, binding = 1) buffer Words { uint words[]; };
layout(set = 0, binding = 2) buffer GaveUp { uint gave_up[]; };
layout(push_constant) uniform Push { OverlapCheckParams p; };

shared uint held[HELD];

bool is_there(uint i) {
    for (uint round = 0; awaited[i] == OVERLAP_MISSING; round++) {
        if (round == p.rounds) {
            return false;
        }
    }
    return true;
}

void main() {
    for (uint i = gl_LocalInvocationIndex; AWAITS != 0 && i < p.words; i += gl_WorkGroupSize.x) {
        if (!is_there(i)) {
            atomicAdd(gave_up[0], 1);
            break;
        }
    }
    for (uint i = gl_LocalInvocationIndex; i < HELD; i += gl_WorkGroupSize.x) { // something that takes a while
        held[i] = (i + gl_WorkGroupID.x) * 1664525u;
    }
    barrier();
    if (gl_LocalInvocationIndex == 0) {
        words[gl_WorkGroupID.x] = held[gl_WorkGroupID.x % HELD] >> 1;
    }
}
