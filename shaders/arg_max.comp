// Index of the largest element of each row, the first of equals; a NaN is
// larger than anything. Stage 0 gives each row to `parts` workgroups, each with
// a run of `run` columns; with more than one part it writes pairs (key, index)
// that a second launch, stage 1, reduces as rows of `parts` columns.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) buffer Out { uint y[]; };
layout(constant_id = 2) const uint STAGE = 0;
layout(constant_id = 3) const uint PAIRS_OUT = 0;
layout(push_constant) uniform Push { ArgMaxParams p; };

shared uvec2 best_of[1024];

uvec2 candidate(uint from, uint c) {
    if (STAGE == 1u) {
        return uvec2(x_bits(from + 2u * c), x_bits(from + 2u * c + 1u));
    }
    uint bits = x_bits(from + c * p.x.col_stride);
    return uvec2(bits_nan(bits, x_DT) ? 0xffffffffu : order_key(bits, x_DT), c);
}

bool better(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }

void main() {
    uint group = workgroup_index();
    uint row = group / p.parts;
    uint part = group - row * p.parts;
    if (row >= p.x.rows) {
        return;
    }
    uint t = gl_LocalInvocationID.x;
    uint from = row_start(p.x, row);
    uint end = min(p.x.cols, (part + 1u) * p.run);
    uvec2 best = uvec2(0u, 0xffffffffu);
    for (uint c = part * p.run + t; c < end; c += gl_WorkGroupSize.x) {
        uvec2 v = candidate(from, c);
        if (better(v, best)) {
            best = v;
        }
    }
    best_of[t] = best;
    for (uint k = gl_WorkGroupSize.x / 2u; k > 0u; k /= 2u) {
        barrier();
        if (t < k && better(best_of[t + k], best_of[t])) {
            best_of[t] = best_of[t + k];
        }
    }
    if (t != 0u) {
        return;
    }
    if (PAIRS_OUT != 0u) {
        y[p.out_offset + 2u * group] = best_of[0].x;
        y[p.out_offset + 2u * group + 1u] = best_of[0].y;
    } else {
        y[p.out_offset + row] = best_of[0].y;
    }
}
