// Softmax along rows, one workgroup per row. Each thread keeps the maximum of
// what it has seen and the sum of exponentials relative to it; the workgroup
// joins those, and a second pass writes. A row of -inf gives NaNs, as IEEE has it.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"
#include "math.glsl"
#include "rows.glsl"
#include "reduce.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(push_constant) uniform Push { SoftmaxParams p; };

void main() {
    uint row = workgroup_index();
    if (row >= p.x.rows) {
        return;
    }
    uint t = gl_LocalInvocationID.x;
    uint threads = gl_WorkGroupSize.x;
    uint from = row_start(p.x, row);
    const float minus_inf = -make_inf();
    float top = minus_inf;
    float sum = 0.0;
    for (uint c = t; c < p.x.cols; c += threads) {
        float v = x_load(from + c * p.x.col_stride);
        if (v > top) {
            sum = sum * m_exp(top - v) + 1.0;
            top = v;
        } else if (floatBitsToUint(v) != floatBitsToUint(minus_inf)) { // which adds nothing, but -inf - -inf is a NaN
            sum += m_exp(v - top);
        }
    }
    float row_top = workgroup_max(top);
    if (sum != 0.0) {
        sum *= m_exp(top - row_top);
    }
    float scale = 1.0 / workgroup_add(sum);
    uint to = p.out_offset + row * p.x.cols;
    for (uint c = t; c < p.x.cols; c += threads) {
        y_store(to + c, m_exp(x_load(from + c * p.x.col_stride) - row_top) * scale);
    }
}
