// Writes the rows of a (the columns of b) as float16 parts for matmul_coopmat,
// padded with zeros to p.runs runs of 8: 32 rows for a workgroup, 64 elements of
// each at a time through shared memory, so that reads are contiguous for any
// strides. float16 is copied; other rows are scaled by a power of two.
//
// variants: narrow
// requires: float16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

#include "tensor.glsl"
#include "float16_parts.glsl"

TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) writeonly buffer Parts { uvec4 parts[]; };
layout(set = 0, binding = 2) writeonly buffer Exponents { int exponents[]; };
layout(constant_id = 2) const uint PARTS = 2;
layout(constant_id = 3) const uint ALONG_K = 1; // whether neighbours along k are closer in memory than rows

layout(push_constant) uniform Push { MatMulSplitParams p; };

const uint ROWS = 32;
const uint COLS = 64;
const uint PITCH = COLS + 1;

shared float tile[ROWS * PITCH];
shared float tops[256];

uint from; // of the batch
uint row0;

void fill(uint k0) {
    [[unroll]] for (uint t = 0; t < ROWS * COLS / 256; t++) {
        uint i = t * 256 + gl_LocalInvocationIndex;
        uint row = ALONG_K != 0 ? i / COLS : i % ROWS;
        uint k = ALONG_K != 0 ? i % COLS : i / ROWS;
        bool inside = row0 + row < p.rows && k0 + k < p.k;
        tile[row * PITCH + k] = inside ? x_load(from + (row0 + row) * p.row_stride + (k0 + k) * p.k_stride) : 0.0;
    }
}

void main() {
    uint batch = gl_WorkGroupID.z;
    uint q = batch;
    from = p.offset;
    [[unroll]] for (int d = 2; d >= 0; d--) {
        from += q % p.shape[d] * p.batch_strides[d];
        q /= p.shape[d];
    }
    row0 = workgroup_index() * ROWS;
    if (row0 >= p.rows) {
        return;
    }
    uint row = gl_LocalInvocationIndex / 8;
    uint at = row * PITCH + gl_LocalInvocationIndex % 8 * 8;
    float top = 0.0;
    int n = 0;
    if (x_DT != DT_FLOAT16) {
        for (uint k0 = 0; k0 < p.k; k0 += COLS) {
            fill(k0);
            barrier();
            [[unroll]] for (uint i = 0; i < 8; i++) {
                float v = abs(tile[at + i]);
                top = magnitude_bits(v) < INF_BITS ? max(top, v) : make_inf();
            }
            barrier();
        }
        tops[gl_LocalInvocationIndex] = top;
        barrier();
        [[unroll]] for (uint i = 0; i < 8; i++) {
            top = max(top, tops[row * 8 + i]);
        }
        n = magnitude_bits(top) < INF_BITS ? row_exponent(top) : NOT_FINITE;
    }
    float one = n == NOT_FINITE ? 0.0 : exp2_int(n >> 1);
    float other = n == NOT_FINITE ? 0.0 : exp2_int(n - (n >> 1));
    uint runs = p.runs;
    uint to = (batch * p.rows + row0 + row) * runs;
    for (uint k0 = 0; k0 < runs * 8; k0 += COLS) {
        barrier();
        fill(k0);
        barrier();
        uint run = k0 / 8 + gl_LocalInvocationIndex % 8;
        if (row0 + row < p.rows && run < runs) {
            vec4 a = vec4(0.0);
            vec4 b = vec4(0.0);
            if (n != NOT_FINITE) {
                a = vec4(tile[at], tile[at + 1], tile[at + 2], tile[at + 3]) * one * other;
                b = vec4(tile[at + 4], tile[at + 5], tile[at + 6], tile[at + 7]) * one * other;
            }
            vec4 c = PARTS > 1 ? high_part4(a) : a;
            vec4 d = PARTS > 1 ? high_part4(b) : b;
            parts[to + run] = pack_run(c, d);
            if (PARTS > 1) {
                parts[p.batches * p.rows * runs + to + run] = pack_run(a - c, b - d);
            }
        }
    }
    if (gl_LocalInvocationIndex % 8 == 0 && row0 + row < p.rows) {
        exponents[batch * p.rows + row0 + row] = n == NOT_FINITE ? NOT_FINITE : -n;
    }
}
