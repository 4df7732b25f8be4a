// Rows of a quantized matrix, one per index; an index outside it gives zeros,
// a negative one counts from the end. One thread per element of out.
#version 450
#extension GL_GOOGLE_include_directive : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 0
#define AFFINE_SPEC 1
#include "affine.glsl"

TENSOR_IN(3, index, 4)
TENSOR_OUT(4, y, 5)

layout(push_constant) uniform Push { QuantizedGatherParams p; };

uint index_at(uint i) {
    uint at = p.i_offset;
    for (uint d = MAX_DIMS - 1; d > 0u; d--) {
        uint q = i / p.shape[d];
        at += (i - q * p.shape[d]) * p.i_strides[d];
        i = q;
    }
    return at + i * p.i_strides[0];
}

void main() {
    // Fewer than 65,535 times: grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint item = i / p.cols;
        uint col = i - item * p.cols;
        uint row = index_bits(index_at(item));
        if (index_DT == DT_INT32 && int(row) < 0) {
            row += p.vocabulary;
        }
        float v = 0.0;
        if (row < p.vocabulary) {
            uint group = col >> p.group_shift;
            uint code = affine_code(p.w_offset + row * p.w_strides[0], p.w_strides[1], col);
            v = element(code, p.s_offset + row * p.s_strides[0] + group * p.s_strides[1],
                        p.b_offset + row * p.b_strides[0] + group * p.b_strides[1], p.group_shift);
        }
        y_store(p.out_offset + i, v);
    }
}
