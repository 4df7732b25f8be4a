// Measures the peak rate of tensor cores: products of 16 by 16 matrices of
// float16 that stay in registers. Each subgroup has eight independent sums. No
// op runs it; bench --ops compares the ops with it.
//
// variants: khr nv
// requires: float16 subgroup storage16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#include "coopmat.glsl"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 1) buffer Out { float y[]; };
layout(push_constant) uniform Push { uint rounds; };

layout(set = 0, binding = 0) readonly buffer In { float16_t x[]; };

void main() {
    MATRIX_A a;
    MATRIX_B b;
    matrix_load(a, x, 0, 16);
    matrix_load(b, x, 256, 16);
    MATRIX_C sums[8];
    [[unroll]] for (uint k = 0u; k < 8u; k++) {
        sums[k] = MATRIX_C(float(k));
    }
    for (uint i = 0u; i < rounds; i++) {
        [[unroll]] for (uint k = 0u; k < 8u; k++) {
            sums[k] = matrix_mul_add(a, b, sums[k]);
        }
    }
    [[unroll]] for (uint k = 0u; k < 8u; k++) {
        matrix_store(sums[k], y, 256u * k, 16); // all subgroups write the same
    }
}
