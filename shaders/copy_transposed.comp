// out = in, bit by bit, where in is contiguous along axis RANK-2 and out along
// axis RANK-1: tiles of 32 x 32 go through shared memory, so that both sides are
// accessed contiguously. One workgroup per tile.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint RANK = 2;
layout(push_constant) uniform Push { Walk2Params p; };

const uint SIDE = 32u;
shared uint tile[32][33]; // one more column, against bank conflicts

void main() {
    uint rows = p.shape[RANK - 2u];
    uint cols = p.shape[RANK - 1u];
    uint group = workgroup_index();
    uint across = (cols + SIDE - 1u) / SIDE;
    uint down = (rows + SIDE - 1u) / SIDE;
    uint q = group / across;
    uint col0 = (group - q * across) * SIDE;
    uint outer = q / down;
    uint row0 = (q - outer * down) * SIDE;

    uvec2 at = uvec2(p.in_offset, p.out_offset);
    for (uint d = RANK - 2u; d > 0u; d--) {
        q = outer / p.shape[d - 1u];
        at += (outer - q * p.shape[d - 1u]) * uvec2(p.in_strides[d - 1u], p.out_strides[d - 1u]);
        outer = q;
    }
    if (outer > 0u) {
        return; // past the last tile
    }
    uint lane = gl_LocalInvocationID.x & 31u;
    uint line = gl_LocalInvocationID.x >> 5;
    for (uint k = line; k < SIDE; k += gl_WorkGroupSize.x / SIDE) {
        if (row0 + lane < rows && col0 + k < cols) {
            tile[k][lane] = x_bits(at.x + (row0 + lane) * p.in_strides[RANK - 2u] + (col0 + k) * p.in_strides[RANK - 1u]);
        }
    }
    barrier();
    for (uint k = line; k < SIDE; k += gl_WorkGroupSize.x / SIDE) {
        if (row0 + k < rows && col0 + lane < cols) {
            y_set_bits(at.y + (row0 + k) * p.out_strides[RANK - 2u] + (col0 + lane) * p.out_strides[RANK - 1u],
                       tile[lane][k]);
        }
    }
}
