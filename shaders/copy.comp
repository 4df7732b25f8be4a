// out = in, bit by bit, any layouts. kpx::copy_array chooses the width.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint RANK = 1;
layout(push_constant) uniform Push { Walk2Params p; };

#define WALK_ARRAYS 2
#include "walk.glsl"

void main() {
    ELEMENTS(i) {
        uvec2 at = walk(i);
        y_set_bits(at.y, x_bits(at.x));
    }
}
