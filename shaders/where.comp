// out = condition ? a : b, bit by bit.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, c, 1)
TENSOR_IN(1, a, 2)
TENSOR_IN(2, b, 3)
TENSOR_OUT(3, y, 4)
layout(constant_id = 5) const uint RANK = 1;
layout(push_constant) uniform Push { Walk4Params p; };

#define WALK_ARRAYS 4
#include "walk.glsl"

void main() {
    ELEMENTS(i) {
        uvec4 at = walk(i);
        uint bits;
        if (c_bits(at.x) != 0u) {
            bits = a_bits(at.y);
        } else {
            bits = b_bits(at.z);
        }
        y_set_bits(at.w, bits);
    }
}
