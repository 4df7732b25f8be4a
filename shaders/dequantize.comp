// out[r, i] = scale * code + bias, or what a mode has instead. One thread per element, so that stores are
// consecutive; words and scales come from the cache for their neighbours.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 0
#define AFFINE_SPEC 1
#include "affine.glsl"

TENSOR_OUT(3, y, 4)

layout(push_constant) uniform Push { DequantizeParams p; };

void main() {
    // Fewer than 65,535 times: grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / p.cols;
        uint col = i - row * p.cols;
        uint c1 = row / p.shape[2];
        uint c0 = c1 / p.shape[1];
        uvec3 c = uvec3(c0, c1 - c0 * p.shape[1], row - c1 * p.shape[2]);
        uint w_row = p.w_offset + c.x * p.w_strides[0] + c.y * p.w_strides[1] + c.z * p.w_strides[2];
        uint s_row = p.s_offset + c.x * p.s_strides[0] + c.y * p.s_strides[1] + c.z * p.s_strides[2];
        uint b_row = p.b_offset + c.x * p.b_strides[0] + c.y * p.b_strides[1] + c.z * p.b_strides[2];
        uint code = affine_code(w_row, p.w_strides[3], col);
        uint group = col >> p.group_shift;
        y_store(p.out_offset + i,
                element(code, s_row + group * p.s_strides[3], b_row + group * p.b_strides[3], p.group_shift));
    }
}
