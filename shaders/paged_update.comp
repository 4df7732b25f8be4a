// Writes rows of keys or values to their places in pages, one thread per element.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_OUT(0, y, 1)
TENSOR_IN(1, x, 2)
layout(set = 0, binding = 2) readonly buffer Slots { int slots[]; };
layout(push_constant) uniform Push { PagedUpdateParams p; };

void main() {
    // Fewer than 65,535 times: grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint d = i % p.d;
        uint head = i / p.d % p.heads;
        uint row = i / (p.d * p.heads);
        uint slot = uint(slots[p.slot_offset + row * p.slot_stride]); // negative ones are beyond all places
        if (slot < p.places) {
            uint to = p.pages_offset + slot / p.page * p.pages_strides[0] + head * p.pages_strides[1] +
                      slot % p.page * p.pages_strides[2] + d * p.pages_strides[3];
            y_store(to, x_load(p.rows_offset + row * p.rows_strides[0] + head * p.rows_strides[1] + d * p.rows_strides[2]));
        }
    }
}
