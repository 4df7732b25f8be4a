// out = gate * sigmoid(gate) * up, any layouts.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, gate, 1)
TENSOR_IN(1, up, 2)
TENSOR_OUT(2, y, 3)
layout(constant_id = 4) const uint RANK = 1;
layout(constant_id = 5) const uint QUADS = 0; // if set, the walk counts quads
layout(constant_id = 6) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk3Params p; };

#define WALK_ARRAYS 3
#define WALK_BATCH BATCH
#include "walk.glsl"
WALK_IN(0, gate, 0u)
WALK_IN(1, up, 1u)
WALK_OUT(2, y)

uint product(uint gate, uint up) {
    return float_to_bits(m_silu(bits_to_float(gate, gate_DT)) * bits_to_float(up, up_DT), y_DT);
}

WALK_2(y, product, gate, up)
