// Adds up the results of the workgroups of quantized_matmul_bytes_coopmat for several
// ranges of columns, four neighbouring results per thread, perhaps to a residual.
//
// variants: narrow
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "quads.glsl"
#include "float_quads.glsl"

layout(set = 0, binding = 0) readonly buffer Sums { vec4 sums[]; };
TENSOR_OUT(1, y, 1)
QUAD_BITS_OUT(1, y)
layout(constant_id = 2) const uint SPLITS = 2;
layout(constant_id = 3) const uint RESIDUAL = 0; // whether there is one, of y's dtype
#define residual_DT y_DT
QUADS_IN(2, residual)

layout(push_constant) uniform Push { QuantizedMatMulBytesParams q; };

void main() {
    uint at = workgroup_index() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint quads = q.product.x.rows * q.product.n / 4;
    if (at >= quads) {
        return;
    }
    vec4 v = sums[at];
    [[unroll]] for (uint i = 1; i < SPLITS; i++) {
        v += sums[i * quads + at];
    }
    if (RESIDUAL != 0) {
        v += residual_quad(q.residual_offset + at * 4);
    }
    STORE_FLOATS(y, q.product.out_offset + at * 4, v)
}
