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
layout(constant_id = 5) const uint BATCH = 1;
layout(push_constant) uniform Push { GatherAxisParams gather; };

#define p gather.walk
#define WALK_ARRAYS 3
#define WALK_BATCH BATCH
#include "walk.glsl"

void main() {
    BATCHES(first) {
        uvec3 at[MAX_BATCH];
        uvec4 v;
        EACH(k) {
            at[k] = walk(batch_item(first, k));
            v[k] = indices[at[k].y];
        }
        EACH(k) {
            if (SIGNED_INDICES != 0u && int(v[k]) < 0) {
                v[k] += gather.axis_length;
            }
            v[k] = v[k] < gather.axis_length ? x_bits(at[k].x + v[k] * gather.axis_stride) : 0u;
        }
        EACH(k) {
            if (in_batch(first, k)) {
                y_set_bits(at[k].z, v[k]);
            }
        }
    }
}
