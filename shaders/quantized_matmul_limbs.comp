// Prepares the operands of quantized_matmul_bytes_coopmat. Workgroups write rows of x,
// after a norm, or parts of them, after SiLU(x) * factors if there is that. The
// elements of a group of columns, as many as share a scale of w, become integers of 21
// bits and a sign (of 14, if they are of 16 bits), which are multiples of one power of
// two; what is rounded off is at most 2^-21 (2^-14) of the group's largest, or 2^-127.
// An integer has limbs of 7 bits, the highest of them signed, in planes of their own.
// A group that has infinities or NaNs has its elements' bits in four planes instead,
// and NaN as its multiple. Other workgroups write the scales and biases of w by groups.
//
// Elements are in runs of 8, in the order of plane_byte.
//
// variants: narrow
// requires: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require

#define SUBGROUP
#include "workgroup_reduce.glsl"
#include "rows.glsl"
#include "tensor.glsl"
#include "quads.glsl"
layout(constant_id = 9) const uint LIMBS = 3;
layout(constant_id = 10) const uint BITS = 4; // of a code of w
#include "limb_planes.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
layout(set = 0, binding = 1) writeonly buffer Planes { uvec2 planes[]; };
layout(set = 0, binding = 2) writeonly buffer Factors { vec2 x_factors[]; };
layout(constant_id = 2) const uint VECTOR = 0; // whether x can be loaded in quads
TENSOR_IN(3, factors, 3)
QUADS_IN(3, factors)
TENSOR_IN(4, scales, 4)
TENSOR_IN(5, biases, 5)
layout(set = 0, binding = 6) writeonly buffer WFactors { vec2 w_factors[]; };
layout(constant_id = 6) const uint ROWS_KIND = ROWS_PLAIN; // what is made of x first
layout(constant_id = 7) const uint RUNS = 1; // of a thread at a time
layout(constant_id = 8) const uint W_TURNS = 1; // groups of a row of w that a thread handles
const uint W_ROWS = 32; // of w in a workgroup

layout(push_constant) uniform Push { QuantizedMatMulLimbsParams p; };

#include "made_rows.glsl"

// One byte of each of eight integers of a run.
uvec2 bytes_of_run(uvec4 low, uvec4 high, uint shift) {
    uvec4 a = ((BITS != 4 ? low : uvec4(low.xz, high.xz)) >> shift) & 255u;
    uvec4 b = ((BITS != 4 ? high : uvec4(low.yw, high.yw)) >> shift) & 255u;
    return uvec2(a.x | (a.y << 8) | (a.z << 16) | (a.w << 24), b.x | (b.y << 8) | (b.z << 16) | (b.w << 24));
}

void keep_run(uint row, uint run, vec4 low, vec4 high) {
    [[unroll]] for (uint plane = 0; plane < PLANES; plane++) {
        planes[plane_run(p.rows.x.rows, p.weights.group_shift, row, run, plane)] =
            bytes_of_run(floatBitsToUint(low), floatBitsToUint(high), 8 * plane);
    }
}

void write_limbs(uint row, uint run, ivec4 low, ivec4 high) {
    [[unroll]] for (uint limb = 0; limb < LIMBS; limb++) {
        uvec2 bytes = bytes_of_run(uvec4(low), uvec4(high), LIMB_BITS * limb);
        planes[plane_run(p.rows.x.rows, p.weights.group_shift, row, run, limb)] = limb + 1 < LIMBS ? bytes & LIMB_MASK : bytes;
    }
}

// The largest magnitude and the sum over the lanes of a group.
float group_max(float v, uint group_runs) {
    for (uint reach = 1; reach < group_runs; reach *= 2) {
        v = max(v, subgroupShuffleXor(v, reach));
    }
    return v;
}
int group_sum(int v, uint group_runs) {
    for (uint reach = 1; reach < group_runs; reach *= 2) {
        v += subgroupShuffleXor(v, reach);
    }
    return v;
}

// Writes the block, whose groups are in one subgroup each.
void write_block(uint row, uint first) {
    uint runs = p.rows.x.cols / 8;
    uint group_runs = 1u << (p.weights.group_shift - 3u);
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        uint run = run_of(first, i);
        bool exists = run < runs;
        vec4 low = block[i].low, high = block[i].high;
        float largest = group_max(exists ? max(magnitude4(low), magnitude4(high)) : 0.0, group_runs);
        bool finite = magnitude_bits(largest) < INF_BITS;
        uint exponent = limb_exponent(largest);
        ivec4 integers[2] = ivec4[2](limb_integers(low, exponent), limb_integers(high, exponent));
        ivec4 sums = integers[0] + integers[1];
        int sum = group_sum(exists ? (sums.x + sums.y) + (sums.z + sums.w) : 0, group_runs);
        if (exists && finite) {
            write_limbs(row, run, integers[0], integers[1]);
        } else if (exists) {
            keep_run(row, run, low, high);
        }
        if (exists && run % group_runs == 0) {
            float multiple = finite ? limb_multiple(exponent) : make_nan();
            x_factors[run / group_runs * p.rows.x.rows + row] = vec2(multiple, multiple * float(sum));
        }
    }
}

// Writes a row, or one of several parts of it, which is a block.
void write_row(uint row, uint part) {
    float scale = row_scale(row);
    uint step = RUNS * gl_WorkGroupSize.x;
    uint end = p.row_parts == 1 ? p.rows.x.cols / 8 : (part + 1) * step;
    for (uint first = part * step; first < end; first += step) {
        if (!NORMED || !one_block()) {
            load_block(row, first);
        }
        finish_block(scale);
        write_block(row, first);
    }
}

// Writes what the products of groups of rows of w are multiplied by, and what the sum of x is, group by group: 32 rows of
// w and a number of groups for each workgroup.
void write_weights(uint workgroup) {
    uint abreast = gl_WorkGroupSize.x / W_ROWS;
    uint blocks = (p.weights.n + W_ROWS - 1) / W_ROWS;
    uint n = workgroup % blocks * W_ROWS + gl_LocalInvocationIndex % W_ROWS;
    uint first = workgroup / blocks * abreast * W_TURNS + gl_LocalInvocationIndex / W_ROWS;
    [[unroll]] for (uint t = 0; t < W_TURNS; t++) {
        uint g = first + t * abreast;
        if (n < p.weights.n && g < p.weights.groups) {
            float scale = scales_load(p.weights.s_offset + n * p.weights.s_strides[0] + g * p.weights.s_strides[1]);
            float bias = biases_load(p.weights.b_offset + n * p.weights.b_strides[0] + g * p.weights.b_strides[1]);
            w_factors[g * p.weights.n + n] = vec2(scale, fma(scale, float(1u << (BITS - 1)), bias));
        }
    }
}

void main() {
    uint group = workgroup_index();
    uint row = group / p.row_parts;
    if (row < p.rows.x.rows) {
        write_row(row, group % p.row_parts);
    } else {
        write_weights(group - p.rows.x.rows * p.row_parts);
    }
}
