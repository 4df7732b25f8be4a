// out[pre, i, post] = x[pre, indices[pre, i, post], post], bit by bit. An index
// below zero counts from the end; one outside x gives zeros.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) readonly buffer Indices { uint indices[]; };
TENSOR_OUT(2, y, 2)
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint SIGNED_INDICES = 1; // int32 indices
layout(push_constant) uniform Push { GatherAxisParams gather; };

#define p gather.walk
#define WALK_ARRAYS 3
#include "walk.glsl"

void main() {
    ELEMENTS(i) {
        uvec3 at = walk(i);
        uint v = indices[at.y];
        if (SIGNED_INDICES != 0u && int(v) < 0) {
            v += gather.axis_length;
        }
        uint bits = 0u;
        if (v < gather.axis_length) {
            bits = x_bits(at.x + v * gather.axis_stride);
        }
        y_set_bits(at.z, bits);
    }
}
