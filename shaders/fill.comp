// Every element of out gets the same bits. kpx::fill_array chooses the width.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_OUT(0, y, 1)
layout(set = 0, binding = 0) buffer y_Quads { uvec4 data[]; } y_quads;
layout(constant_id = 2) const uint RANK = 1;
layout(constant_id = 3) const uint QUADS = 0; // if set, the walk counts units of four words
layout(push_constant) uniform Push { FillParams fill; };

#define p fill.walk // both of the walk's arrays are out
#define WALK_ARRAYS 2
#include "walk.glsl"

void main() {
    ELEMENTS(i) {
        if (QUADS != 0u) {
            y_quads.data[walk(i).y] = uvec4(fill.bits);
        } else {
            y_set_bits(walk(i).y, fill.bits);
        }
    }
}
