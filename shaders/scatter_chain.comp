// Records for each update the next one for the same place, once for all elements
// before and after the axis, so that scatter need not search for a place's
// updates again for each of them. It is not for ALONG.
//
// A thread looks a little ahead, which finds the next update of a place with many
// updates. Otherwise it goes through the unordered list of the place's updates
// that scatter_mark has made, which is then short.
//
// variants: base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer Indices { uint indices[]; };
layout(set = 0, binding = 1) readonly buffer Marks { uint marks[]; };
layout(set = 0, binding = 2) buffer Next { uint next[]; };
layout(constant_id = 1) const uint SIGNED_INDICES = 1; // int32 indices
layout(push_constant) uniform Push { ScatterParams p; };

const uint ALONG = 0u;
#include "scatter.glsl"

const uint AHEAD = 8u; // indices in flight
const uint NEAR = 64u; // how far a thread looks ahead

// The first update after e, and at most `last`, for the place; last, or the last one looked at, if there is none.
uint look_ahead(uint e, uint last, uint place, out bool found) {
    found = false;
    for (uint k = e + 1u; k <= min(last, e + NEAR); k += AHEAD) {
        uint near[AHEAD];
        [[unroll]] for (uint j = 0u; j < AHEAD; j++) {
            near[j] = indices[p.index_offset + min(k + j, last)];
        }
        [[unroll]] for (uint j = 0u; j < AHEAD; j++) {
            if (k + j <= last && resolve(near[j]) == place) {
                found = true;
                return k + j;
            }
        }
    }
    return last;
}

void main() {
    for (uint e = gl_GlobalInvocationID.x; e < p.count; e += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint place = resolve(indices[p.index_offset + e]);
        if (place >= p.places) {
            continue;
        }
        uint last = marks[p.marks_offset + 2u * place + 1u] - 1u;
        if (e >= last) {
            continue;
        }
        bool found;
        uint nearest = look_ahead(e, last, place, found);
        for (uint k = marks[p.heads_offset + place]; !found && k != 0u; k = next[p.count + k - 1u]) {
            if (k - 1u > e) {
                nearest = min(nearest, k - 1u);
            }
        }
        next[e] = nearest;
    }
}
