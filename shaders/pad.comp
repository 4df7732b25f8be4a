// x in the middle of out, bit by bit, and around it either one element or, where
// EDGE is set, the nearest one of x. out is dense.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint EDGE = 0;
layout(push_constant) uniform Push { PadParams p; };

#define ELEMENTS(i) for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)

// Moves along axis d to place k of out; false: that is outside of x.
bool enter(uint d, uint k, inout uint at) {
    uint inside = k - p.low[d]; // wraps around below low
    if (EDGE != 0u) {
        inside = k < p.low[d] ? 0u : min(inside, p.x_shape[d] - 1u);
    }
    at += inside * p.x_strides[d];
    return inside < p.x_shape[d];
}

void main() {
    ELEMENTS(i) {
        uint at = p.x_offset;
        uint rest = i;
        bool inside = true;
        for (uint d = RANK - 1u; d > 0u; d--) {
            uint q = rest / p.shape[d];
            inside = enter(d, rest - q * p.shape[d], at) && inside;
            rest = q;
        }
        inside = enter(0u, rest, at) && inside;
        uint bits = p.bits;
        if (inside) {
            bits = x_bits(at);
        }
        y_set_bits(p.out_offset + i, bits);
    }
}
