// out[pre, i, post] = x[pre, indices[i], post], bit by bit; out is dense. An
// index below zero counts from the end; one outside x gives zeros.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) readonly buffer Indices { uint indices[]; };
TENSOR_OUT(2, y, 2)
layout(constant_id = 3) const uint SIGNED_INDICES = 1; // int32 indices
layout(push_constant) uniform Push { GatherParams p; };

#define ELEMENTS(i) for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x)

// Offset of position i in three axes.
uint place(uint i, uint shape[3], uint strides[3]) {
    uint q = i / shape[2];
    uint at = (i - q * shape[2]) * strides[2];
    i = q;
    q = i / shape[1];
    return at + (i - q * shape[1]) * strides[1] + q * strides[0];
}

void main() {
    ELEMENTS(i) {
        uint q = i / p.post_size;
        uint post = i - q * p.post_size;
        uint pre = q / p.index_count;
        uint k = q - pre * p.index_count;
        uint v = indices[p.index_offset + place(k, p.index_shape, p.index_strides)];
        if (SIGNED_INDICES != 0u && int(v) < 0) {
            v += p.axis_length;
        }
        uint bits = 0u;
        if (v < p.axis_length) {
            bits = x_bits(p.x_offset + place(pre, p.pre_shape, p.pre_strides) + v * p.axis_stride +
                          place(post, p.post_shape, p.post_strides));
        }
        y_set_bits(p.out_offset + i, bits);
    }
}
