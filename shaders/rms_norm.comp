// RMSNorm along rows, one workgroup per row: out = x / sqrt(mean(x^2) + eps) * weight.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"
#include "rows.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_IN(1, w, 2)
TENSOR_OUT(2, y, 3)
layout(constant_id = 4) const uint HAS_WEIGHT = 1;
layout(push_constant) uniform Push { RMSNormParams p; };

void main() {
    uint row = workgroup_index();
    if (row >= p.x.rows) {
        return;
    }
    uint t = gl_LocalInvocationID.x;
    uint threads = gl_WorkGroupSize.x;
    uint from = row_start(p.x, row);
    float squares = 0.0;
    for (uint c = t; c < p.x.cols; c += threads) {
        float v = x_load(from + c * p.x.col_stride);
        squares += v * v;
    }
    float scale = inversesqrt(workgroup_add(squares) / float(p.x.cols) + p.eps);
    uint to = p.out_offset + row * p.x.cols;
    for (uint c = t; c < p.x.cols; c += threads) {
        float v = x_load(from + c * p.x.col_stride) * scale;
        if (HAS_WEIGHT != 0u) {
            v *= w_load(p.w_offset + c * p.w_stride);
        }
        y_store(to + c, v);
    }
}
