// Copies x into the middle of out, bit by bit; around it, every element is a
// given one or, if EDGE is set, the nearest one of x. out is dense.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint EDGE = 0;
layout(constant_id = 5) const uint BATCH = 1;
layout(push_constant) uniform Push { PadParams p; };

#define WALK_ARRAYS 0
#define WALK_BATCH BATCH
#include "walk.glsl"

// Moves to index k of out along axis d; false: that is outside of x.
bool enter(uint d, uint k, inout uint at) {
    uint inside = k - p.low[d]; // wraps around below low
    if (EDGE != 0u) {
        inside = k < p.low[d] ? 0u : min(inside, p.x_shape[d] - 1u);
    }
    at += inside * p.x_strides[d];
    return inside < p.x_shape[d];
}

uint padded(uint i) {
    uint at = p.x_offset;
    bool inside = true;
    for (uint d = RANK - 1u; d > 0u; d--) {
        uint q = i / p.shape[d];
        inside = enter(d, i - q * p.shape[d], at) && inside;
        i = q;
    }
    inside = enter(0u, i, at) && inside;
    return inside ? x_bits(at) : p.bits;
}

void main() {
    BATCHES(first) {
        uint bits[MAX_BATCH];
        EACH(k) bits[k] = padded(batch_item(first, k));
        EACH(k) {
            if (in_batch(first, k)) {
                y_set_bits(p.out_offset + batch_item(first, k), bits[k]);
            }
        }
    }
}
