// Prepares both operands of quantized_matmul_coopmat or quantized_matmul_fragments. The first workgroups write a
// row of x each as sums of float16 numbers: two of a float32 element, one of a
// 16-bit one. They are followed by the parts of the sums over every group, for the
// biases of w, each as often as the products of high and low parts need it. The
// other workgroups prepare rows of w (see quantized_scales.glsl).
//
// It may norm or gate x first. If a row then has infinities or NaNs, it is stored
// in the place of its parts, in x's type.
//
// Elements of x are in runs of 8, in the order 0 4 1 5 2 6 3 7, the order in
// which pairs of codes are unpacked; for quantized_matmul_fragments, those that are
// multiplied by E4M3 codes in the order 0 2 1 3 4 6 5 7.
//
// variants: narrow
// requires: float16 subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require

#define SUBGROUP
#include "workgroup_reduce.glsl"
#include "rows.glsl"
#include "tensor.glsl"
#include "quads.glsl"
#include "float16_parts.glsl"
#include "float_quads.glsl"

TENSOR_IN(0, x, 1)
QUADS_IN(0, x)
layout(set = 0, binding = 1) writeonly buffer Parts { uvec4 parts[]; };
layout(set = 0, binding = 1) writeonly buffer PartHalves { uvec2 part_halves[]; };
layout(set = 0, binding = 1) writeonly buffer More { float16_t more[]; };
layout(set = 0, binding = 2) writeonly buffer Exponents { int exponents[]; };
TENSOR_IN(3, scales, 2)
TENSOR_IN(4, biases, 3)
layout(set = 0, binding = 5) writeonly buffer Scaled16 { float16_t scaled_16[]; };
layout(set = 0, binding = 5) writeonly buffer Scaled32 { float scaled_32[]; };
layout(set = 0, binding = 6) writeonly buffer WMore { float16_t w_more[]; };
layout(set = 0, binding = 7) writeonly buffer WExponents { int w_exponents[]; };
layout(constant_id = 4) const uint PARTS = 2;
layout(constant_id = 5) const uint VECTOR = 0; // whether x can be loaded in quads
layout(constant_id = 6) const uint W_PARTS = 1;
layout(constant_id = 7) const uint SUMS = 1; // whether w has biases
layout(constant_id = 8) const uint BITS = 4;
TENSOR_IN(8, factors, 9)
QUADS_IN(8, factors)
layout(constant_id = 10) const uint ROWS_KIND = ROWS_PLAIN; // what is made of x first
layout(constant_id = 11) const uint RUNS = 1; // of a thread at a time
layout(constant_id = 12) const uint FRAGMENTS = 0; // whether quantized_matmul_fragments reads them

layout(push_constant) uniform Push { QuantizedMatMulSplitParams p; };

#include "fragment_runs.glsl"
#include "quantized_scales.glsl"
#include "made_rows.glsl"

uint word_at(uint part, uint row, uint run, uint pair) {
    return part_word(part, p.rows.x.rows, row, p.x_runs, run, p.rows.x.cols, pair);
}

// The first run of what is added to the columns of x.
uint added_run() { return FRAGMENTS == 0 ? p.rows.x.cols / 8 : chunks_of(p.rows.x.cols) * CHUNK_RUNS; }

void store_pairs(uint part, uint row, uint run, uvec4 pairs) {
    if (FRAGMENTS == 0) {
        parts[word_at(part, row, run, 0) / 4] = pairs;
        return;
    }
    part_halves[word_at(part, row, run, 0) / 2] = pairs.xy;
    part_halves[word_at(part, row, run, 2) / 2] = pairs.zw;
}

// Eight elements of a part in the order in which codes are unpacked.
uvec4 paired(vec4 low, vec4 high) {
    if (FRAGMENTS != 0 && BITS == 8) {
        return pack_pairs(vec4(low.xy, high.xy), vec4(low.zw, high.zw));
    }
    return pack_pairs(low, high);
}

// Writes run `run` of a row, and returns its sum.
float split_run(uint row, uint run, vec4 low, vec4 high) {
    if (PARTS == 1) {
        store_pairs(0, row, run, paired(low, high));
    } else {
        vec4 a = high_part4(low);
        vec4 b = high_part4(high);
        store_pairs(0, row, run, paired(a, b));
        store_pairs(1, row, run, paired(low - a, high - b));
    }
    vec4 sum = low + high;
    return (sum.x + sum.y) + (sum.z + sum.w);
}

// Writes a run of a row that is not finite as its elements' bits: of 32-bit ones, the high halves and then the low ones.
void keep_run(uint row, uint run, vec4 low, vec4 high) {
    uvec4 a = floats_to_bits(low, x_DT);
    uvec4 b = floats_to_bits(high, x_DT);
    if (FRAGMENTS != 0 && BITS == 8) { // as paired() does
        uvec2 right = a.zw;
        a.zw = b.xy;
        b.xy = right;
    }
    if (PARTS == 1) {
        store_pairs(0, row, run, a | (b << 16));
    } else {
        store_pairs(0, row, run, (a >> 16) | (b & 0xffff0000u));
        store_pairs(1, row, run, (a & 0xffffu) | (b << 16));
    }
}

// Added column i of a row.
void store_added(uint part, uint row, uint i, float16_t v) {
    more[word_at(part, row, added_run() + i / 8, i % 8 / 2) * 2 + i % 2] = v;
}

// Writes the parts of the sum over group g of a row to their columns.
void store_more(uint row, uint g, uint groups, float v) {
    float16_t h = float16_t(high_part(v));
    float16_t l = float16_t(v - high_part(v));
    store_added(0, row, g, h);
    if (PARTS == 1) {
        store_added(0, row, g + groups, l);
        if (W_PARTS == 1) {
            store_added(0, row, g + 2 * groups, h);
        }
        return;
    }
    store_added(1, row, g, l);
    if (W_PARTS == 1) {
        store_added(0, row, g + groups, h);
        store_added(1, row, g + groups, float16_t(0.0));
    }
}

// Writes zeros after the sums, up to the last added column.
void pad_more(uint row, uint groups) {
    uint copies = SUMS == 0 ? 0u : BIAS_COPIES(PARTS, W_PARTS);
    for (uint i = copies * groups + gl_LocalInvocationIndex; i < p.weights.more; i += gl_WorkGroupSize.x) {
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            store_added(part, row, i, float16_t(0.0));
        }
    }
}

// Writes zeros after the last column, up to a whole chunk.
void pad_chunk(uint row) {
    uint run = p.rows.x.cols / 8 + gl_LocalInvocationIndex;
    if (FRAGMENTS != 0 && run < added_run()) {
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            store_pairs(part, row, run, uvec4(0));
        }
    }
}

// Writes the block, scaled by 2^n, and the sums of its groups, each of which is in one subgroup.
void split_block(uint row, uint first, bool finite, int n) {
    float factors[2] = float[2](exp2_int(n >> 1), exp2_int(n - (n >> 1)));
    uint runs = p.rows.x.cols / 8;
    uint group_runs = 1u << (p.weights.group_shift - 3u);
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        uint run = run_of(first, i);
        float sum = 0.0;
        if (run < runs && finite) {
            sum = split_run(row, run, block[i].low * factors[0] * factors[1], block[i].high * factors[0] * factors[1]);
        } else if (run < runs) {
            keep_run(row, run, block[i].low, block[i].high);
        }
        if (SUMS == 0) {
            continue;
        }
        for (uint reach = 1; reach < group_runs; reach *= 2) {
            sum += subgroupShuffleXor(sum, reach);
        }
        if (run % group_runs == 0 && run < runs) {
            store_more(row, run / group_runs, runs / group_runs, sum * exp2_int(-int(p.weights.group_shift)));
        }
    }
}

float block_top() {
    float top = 0.0;
    [[unroll]] for (uint i = 0; i < RUNS; i++) {
        top = max(top, max(magnitude4(block[i].low), magnitude4(block[i].high)));
    }
    return top;
}

void split_row(uint row) {
    uint runs = p.rows.x.cols / 8;
    uint step = RUNS * gl_WorkGroupSize.x;
    float scale = row_scale(row);
    float top = 0.0;
    for (uint first = 0; first < runs; first += step) {
        if (!NORMED || !one_block()) {
            load_block(row, first);
        }
        finish_block(scale);
        top = max(top, block_top());
    }
    top = workgroup_max(top);
    bool finite = magnitude_bits(top) < INF_BITS;
    int n = finite ? row_exponent(top) : 0;
    for (uint first = 0; first < runs; first += step) {
        if (!one_block()) {
            load_block(row, first);
            finish_block(scale);
        }
        split_block(row, first, finite, n);
    }
    pad_more(row, p.rows.x.cols >> p.weights.group_shift);
    pad_chunk(row);
    if (gl_LocalInvocationIndex == 0) {
        exponents[row] = finite ? -n : NOT_FINITE;
    }
}

void main() {
    uint group = workgroup_index();
    if (group < p.rows.x.rows) {
        split_row(group);
    } else {
        prepare_weights((group - p.rows.x.rows) * gl_NumSubgroups + gl_SubgroupID);
    }
}
