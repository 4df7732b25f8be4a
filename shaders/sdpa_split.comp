// Writes rows of q, k or v as float16 parts for sdpa_coopmat, 16 threads a row,
// padded with zeros to whole matrices. Infinities and NaNs are replaced by zeros,
// and flagged in the row's exponent. Of a cache, most of the keys behind those that
// exist are left out: nobody reads them.
//
// variants: narrow
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "tensor.glsl"
#include "quads.glsl"
#include "split_rows.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
layout(set = 0, binding = 1) writeonly buffer Parts { uvec4 parts[]; };
layout(set = 0, binding = 2) writeonly buffer Exponents { int exponents[]; };
layout(set = 0, binding = 3) readonly buffer Lengths { int lengths[]; };
layout(constant_id = 2) const uint PARTS = 2;
layout(constant_id = 3) const uint VECTOR = 0; // whether x can be loaded in quads
layout(constant_id = 4) const uint HAS_LENGTH = 0; // of the steps; the groups then have one head

layout(push_constant) uniform Push { SDPASplitParams p; };

uint row_start(uint row) {
    uint at = p.offset;
    [[unroll]] for (int d = 2; d >= 0; d--) {
        uint q = row / p.shape[d];
        at += (row - q * p.shape[d]) * p.strides[d + 1];
        row = q;
    }
    return at + row * p.strides[0];
}

vec4 load4(uint from, uint k) {
    vec4 v = vec4(0.0);
    if (VECTOR != 0) {
        return k < p.cols ? x_quad(from + k) : v;
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (k + c < p.cols) {
            v[c] = x_load(from + (k + c) * p.col_stride);
        }
    }
    return v;
}

// Whether no row of the workgroup exists. If its rows are of two heads, it does not matter.
bool is_past_the_end() {
    uint count = gl_WorkGroupSize.x / LANES_OF_ROW;
    uint step = workgroup_index() * count % p.shape[1];
    return HAS_LENGTH != 0 && int(step) >= lengths[p.length_offset] && step + count <= p.shape[1];
}

void main() {
    if (is_past_the_end()) {
        return;
    }
    uint thread = workgroup_index() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint row = min(thread / LANES_OF_ROW, p.rows - 1);
    uint run = thread % LANES_OF_ROW;
    uint from = row_start(row);
    vec4 a = load4(from, run * 8), b = load4(from, run * 8 + 4);
    int exponent = scale_run(a, b);
    if (thread / LANES_OF_ROW >= p.rows || run >= p.runs) {
        return;
    }
    uint at = row * p.runs + run;
    vec4 c = PARTS > 1 ? high_part4(a) : a;
    vec4 d = PARTS > 1 ? high_part4(b) : b;
    parts[at] = pack_run(c, d);
    if (PARTS > 1) {
        parts[p.rows * p.runs + at] = pack_run(a - c, b - d);
    }
    if (run == 0) {
        exponents[row] = exponent;
    }
}
