// out[z, m, n] = sum over k of a[z, m, k] * b[z, k, n] for a few rows of a,
// where b is contiguous along k: the transposed view of a linear layer's weight.
// A slot of lanes processes a column of b, each lane 16 bytes of it at a time.
//
// variants: narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "tensor.glsl"
#include "batch.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, a, 1)
TENSOR_IN(1, b, 2)
layout(set = 0, binding = 1) readonly buffer b_Block4 { uvec4 data[]; } b_4;
TENSOR_OUT(2, y, 3)

#define STAGED_SPEC 4
#include "staged_rows.glsl"
#define SLOT_SPEC 6
#include "slots.glsl"
layout(constant_id = 7) const uint VECTOR = 0; // whether b can be loaded 16 bytes at a time, and k is a multiple of that
const uint WIDE = b_DT == DT_FLOAT32 ? 4 : 8;  // elements in 16 bytes

layout(push_constant) uniform Push { MatMulVecParams p; };

void stage(uint from, uint k0) {
    uint count = min(p.matmul.k - k0, STAGED_CHUNK);
    for (uint m = 0; m < STAGED_ROWS; m++) {
        uint at = from + min(m, p.matmul.m - 1) * p.matmul.a_strides[0] + k0 * p.matmul.a_strides[1];
        for (uint i = gl_LocalInvocationIndex; i < STAGED_CHUNK; i += gl_WorkGroupSize.x) {
            staged_set(m, i, i < count ? a_load(at + i * p.matmul.a_strides[1]) : 0.0);
        }
    }
    barrier();
}

float acc[STAGED_MOST];

void add_quad(uint quad, vec4 v) {
    [[unroll]] for (uint m = 0; m < STAGED_MOST; m++) {
        if (m < STAGED_ROWS) {
            acc[m] += dot(v, staged_quad(m, quad));
        }
    }
}

vec4 pair(uint low, uint high) {
    return vec4(bits_to_float(low & 0xffffu, b_DT), bits_to_float(low >> 16, b_DT), bits_to_float(high & 0xffffu, b_DT),
                bits_to_float(high >> 16, b_DT));
}

void add_chunk_wide(uint from, uint count) {
    for (uint i = slot_lane() * WIDE; i < count; i += slot_lanes() * WIDE) {
        uvec4 v = b_4.data[(from + i) / WIDE];
        if (WIDE == 4) {
            add_quad(i / 4, uintBitsToFloat(v));
        } else {
            add_quad(i / 4, pair(v.x, v.y));
            add_quad(i / 4 + 1, pair(v.z, v.w));
        }
    }
}

void add_chunk(uint from, uint count) {
    for (uint i = slot_lane() * 4; i < count; i += slot_lanes() * 4) {
        vec4 v = vec4(0.0);
        [[unroll]] for (uint c = 0; c < 4; c++) {
            if (i + c < count) {
                v[c] = b_load(from + i + c);
            }
        }
        add_quad(i / 4, v);
    }
}

void main() {
    uint batch = p.matmul.batch + gl_WorkGroupID.z;
    uvec2 from = batch_start(p.matmul, batch);
    uint slots = slot_count();
    uint columns = min(p.matmul.n, (workgroup_index() + 1) * p.rows_per_group);
    for (uint turn = 0; turn < p.rows_per_group; turn += slots) {
        uint column = workgroup_index() * p.rows_per_group + turn + slot_index();
        [[unroll]] for (uint m = 0; m < STAGED_MOST; m++) {
            acc[m] = 0.0;
        }
        for (uint k0 = 0; k0 < p.matmul.k; k0 += STAGED_CHUNK) {
            if (turn == 0 || p.matmul.k > STAGED_CHUNK) {
                barrier();
                stage(from.x, k0);
            }
            if (column < columns) {
                uint at = from.y + column * p.matmul.b_strides[1] + k0;
                uint count = min(p.matmul.k - k0, STAGED_CHUNK);
                if (VECTOR != 0) {
                    add_chunk_wide(at, count);
                } else {
                    add_chunk(at, count);
                }
            }
        }
        [[unroll]] for (uint m = 0; m < STAGED_MOST; m++) {
            if (m < STAGED_ROWS) { // those past the last row of a are copies of it
                float sum = slot_sum(acc[m]);
                if (m < p.matmul.m && column < columns && slot_lane() == 0) {
                    y_store(p.matmul.out_offset + (batch * p.matmul.m + m) * p.matmul.n + column, sum);
                }
            }
        }
    }
}
