// out[i] = start + i * step: for floats in float32, rounded once; for integers
// wrapping around.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_OUT(0, y, 1)
layout(push_constant) uniform Push { ArangeParams p; };

#define ELEMENTS(i) for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)

void main() {
    ELEMENTS(i) {
        uint at = p.out_offset + i * p.out_stride;
        if (is_float_dtype(y_DT)) {
            precise float product = float(i) * uintBitsToFloat(p.step); // rounded, as on the CPU
            precise float v = uintBitsToFloat(p.start) + product;
            y_store(at, v);
        } else {
            y_set_bits(at, p.start + i * p.step);
        }
    }
}
