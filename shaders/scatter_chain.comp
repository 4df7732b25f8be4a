// Notes for each update the next one for the same place. The first update's
// thread does it, up to the last one, as scatter_mark has found them: once for
// all elements before and behind the axis, so that scatter need not look for a
// place's updates again for each of them. Indices are not along.
//
// variants: base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer Indices { uint indices[]; };
layout(set = 0, binding = 1) readonly buffer Marks { uint marks[]; };
layout(set = 0, binding = 2) writeonly buffer Next { uint next[]; };
layout(constant_id = 1) const uint SIGNED_INDICES = 1; // int32 indices
layout(push_constant) uniform Push { ScatterParams p; };

const uint ALONG = 0u;
#include "scatter.glsl"

const uint AHEAD = 4u; // indices under way

void main() {
    for (uint e = gl_GlobalInvocationID.x; e < p.count; e += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint place = resolve(indices[p.index_offset + e]);
        if (place >= p.places) {
            continue;
        }
        uint mark = p.marks_offset + 2u * place;
        if (e != ~marks[mark]) {
            continue;
        }
        uint last = marks[mark + 1u] - 1u;
        uint before = e;
        for (uint k = e + 1u; k <= last; k += AHEAD) {
            uint found[AHEAD];
            for (uint j = 0u; j < AHEAD; j++) {
                found[j] = indices[p.index_offset + min(k + j, last)];
            }
            for (uint j = 0u; j < AHEAD; j++) {
                if (k + j <= last && resolve(found[j]) == place) {
                    next[before] = k + j;
                    before = k + j;
                }
            }
        }
    }
}
