// Records the first and the last update for each place of the axis. Marks start
// as zero; the last is stored plus one and the first as its complement, so that
// both are maxima, whatever the order of threads. For scatter_chain it also
// makes an unordered list of each place's updates.
//
// variants: base
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer Indices { uint indices[]; };
layout(set = 0, binding = 1) buffer Marks { uint marks[]; };
layout(set = 0, binding = 2) writeonly buffer Links { uint links[]; }; // LISTED, after the chains
layout(constant_id = 1) const uint SIGNED_INDICES = 1; // int32 indices
layout(constant_id = 2) const uint ALONG = 0;
layout(constant_id = 3) const uint LISTED = 0; // not ALONG
layout(push_constant) uniform Push { ScatterParams p; };

#include "scatter.glsl"

void main() {
    for (uint e = gl_GlobalInvocationID.x; e < p.n; e += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        Update u = locate(e, ALONG != 0u ? p.post : 1u);
        uint place = resolve(indices[index_at(u, u.number)]);
        if (place < p.places) {
            uint mark = mark_at(u, place);
            atomicMax(marks[mark], ~u.number);
            atomicMax(marks[mark + 1u], u.number + 1u);
            if (LISTED != 0u) {
                links[p.count + u.number] = atomicExchange(marks[p.heads_offset + place], u.number + 1u);
            }
        }
    }
}
