// Writes rows of keys or values to their places in pages, one thread per element or, of codes, per group of them.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "tensor.glsl"
#include "cache_codes.glsl"

layout(local_size_x_id = 0) in;
TENSOR_OUT(0, y, 1)
TENSOR_IN(1, x, 2)
CACHE_STORES(y)
layout(set = 0, binding = 2) readonly buffer Slots { int slots[]; };
layout(push_constant) uniform Push { PagedUpdateParams p; };

vec4 x_four(uint from, uint quad) {
    vec4 r;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        r[c] = x_load(from + (quad * 4 + c) * p.rows_strides[2]);
    }
    return r;
}

void store_group(uint from, uint to, uint group) {
    uint first = group * CACHE_QUADS, end = min(first + CACHE_QUADS, p.d / 4);
    uint most = 0;
    for (uint quad = first; quad < end; quad++) {
        most = max(most, magnitude_of(x_four(from, quad)));
    }
    vec2 scale = cache_group(most);
    for (uint quad = first; quad < end; quad++) {
        y_cache_store(to, quad, p.d, cache_codes(x_four(from, quad), scale), scale);
    }
}

void main() {
    uint units = y_DT == DT_UINT8 ? (p.d + CACHE_GROUP - 1) / CACHE_GROUP : p.d; // of a head
    // A few rounds (csrc/ops/rounds.hpp): grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint d = i % units;
        uint head = i / units % p.heads;
        uint row = i / (units * p.heads);
        uint slot = uint(slots[p.slot_offset + row * p.slot_stride]); // negative ones are beyond all places
        if (slot < p.places) {
            uint to = p.pages_offset + slot / p.page * p.pages_strides[0] + head * p.pages_strides[1] +
                      slot % p.page * p.pages_strides[2];
            uint from = p.rows_offset + row * p.rows_strides[0] + head * p.rows_strides[1];
            if (y_DT == DT_UINT8) {
                store_group(from, to, d);
            } else {
                y_store(to + d * p.pages_strides[3], x_load(from + d * p.rows_strides[2]));
            }
        }
    }
}
