// out = gate * sigmoid(gate) * up, any layouts.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, gate, 1)
TENSOR_IN(1, up, 2)
TENSOR_OUT(2, y, 3)
layout(constant_id = 4) const uint RANK = 1;
layout(push_constant) uniform Push { Walk3Params p; };

#define WALK_ARRAYS 3
#include "walk.glsl"

void main() {
    ELEMENTS(i) {
        uvec3 at = walk(i);
        y_store(at.z, m_silu(gate_load(at.x)) * up_load(at.y));
    }
}
