// Writes rows of q, k or v as float16 parts for sdpa_coopmat and sdpa_fragments, 16 threads a row, padded with zeros to
// whole matrices. Infinities and NaNs are replaced by zeros, and flagged in the row's exponent. In a cache, tiles of
// keys that do not exist yet are left out, since nothing reads them.
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
layout(constant_id = 5) const uint ORDER = SPLIT_ROWS;

layout(push_constant) uniform Push { SDPASplitParams p; };

shared uvec4 staged[8][LANES_OF_ROW]; // runs of the workgroup's rows

// A row of a head; the head is one of all in the batch.
uint row_start(uint head, uint row) {
    uint step = row / p.group, batch = head / p.heads;
    return p.offset + batch * p.strides[0] + (head - batch * p.heads) * p.strides[1] + step * p.strides[2] +
           (row - step * p.group) * p.strides[3];
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

// The rows of a head that exist. Others count as zeros, since the exponent of a tile of keys depends on all its rows.
uint existing_rows() {
    return HAS_LENGTH != 0 ? uint(clamp(lengths[p.length_offset], 0, int(p.used_rows))) : p.used_rows;
}

// Whether no row of the workgroup, nor of its tile of keys, exists. If its rows are of two heads, it does not matter.
bool is_past_the_end() {
    uint count = gl_WorkGroupSize.x / LANES_OF_ROW;
    uint step = workgroup_index() * count % p.head_rows;
    return HAS_LENGTH != 0 && step >= (existing_rows() + SPLIT_TILE - 1) / SPLIT_TILE * SPLIT_TILE &&
           step + count <= p.head_rows;
}

// sdpa_fragments.comp describes where it has which rows and elements. It loads adjacent quads, so rows are padded to
// tiles of 16 queries or 32 keys, each of one head, and runs to chunks of 4.
uint at_of_queries(uint row, uint run) {
    return ((row / 16 * (p.runs / 4) + run / 4) * 2 + row % 2) * 32 + row % 16 / 2 * 4 + run % 4;
}

uint at_of_keys(uint row, uint run) {
    uint tile = row % 32 / 16 * 2 + row % 4 / 2, column = row % 16 / 4 * 2 + row % 2;
    return ((row / 32 * (p.runs / 4) + run / 4) * 4 + tile) * 32 + column * 4 + run % 4;
}

uint at_of_values(uint row, uint run) {
    uint i = row % 4, half_tile = row % 32 / 16;
    return ((row / 32 * (p.runs / 4) + run / 4) * 4 + half_tile * 2 + i % 2) * 32 + (run % 4 * 2 + i / 2) * 4 +
           row % 16 / 4;
}

// What this thread stores of the words that the threads of its row and its neighbours made.
uvec4 exchange(uvec4 words, uint row, uint run) {
    uint r = gl_LocalInvocationIndex / LANES_OF_ROW;
    barrier(); // others may still read
    staged[r][run] = words;
    barrier();
    if (ORDER == SPLIT_QUERIES) {
        uvec4 even = staged[r / 2 * 2][run], odd = staged[r / 2 * 2 + 1][run];
        return row % 2 == 0 ? uvec4(even.x, odd.x, even.y, odd.y) : uvec4(even.z, odd.z, even.w, odd.w);
    }
    uvec4 w;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        w[i] = staged[r / 4 * 4 + i][run][row % 4];
    }
    uvec2 low = (w.xz & 0xffffu) | w.yw << 16, high = w.xz >> 16 | (w.yw & 0xffff0000u);
    return uvec4(low, high);
}

void main() {
    if (is_past_the_end()) {
        return;
    }
    uint thread = workgroup_index() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
    uint row = min(thread / LANES_OF_ROW, p.rows - 1);
    uint run = thread % LANES_OF_ROW;
    uint head = row / p.head_rows, own = row - head * p.head_rows;
    vec4 a = vec4(0.0), b = vec4(0.0);
    if (own < existing_rows()) {
        uint from = row_start(head, own);
        a = load4(from, run * 8);
        b = load4(from, run * 8 + 4);
    }
    int exponent = scale_run(a, b);
    vec4 c = PARTS > 1 ? high_part4(a) : a;
    vec4 d = PARTS > 1 ? high_part4(b) : b;
    uvec4 high = pack_run(c, d), low = pack_run(a - c, b - d);
    uint at = row * p.runs + run;
    if (ORDER == SPLIT_KEYS) {
        at = at_of_keys(row, run);
    } else if (ORDER != SPLIT_ROWS) {
        at = ORDER == SPLIT_QUERIES ? at_of_queries(row, run) : at_of_values(row, run);
        high = exchange(high, row, run);
        low = PARTS > 1 ? exchange(low, row, run) : low;
    }
    if (thread / LANES_OF_ROW >= p.rows || run >= p.runs) {
        return;
    }
    parts[at] = high;
    if (PARTS > 1) {
        parts[p.rows * p.runs + at] = low;
    }
    if (run == 0 && own < p.used_rows) {
        exponents[head * p.used_rows + own] = exponent;
    }
}
