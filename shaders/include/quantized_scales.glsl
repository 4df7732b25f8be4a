// Prepares w's scales and biases for quantized_matmul_coopmat and quantized_matmul_fragments;
// each subgroup handles one row of w. The row is scaled by a power of two, so that its elements
// are below 2^15 and float16 holds them: if W_PARTS is 1, it represents the
// products of scales and codes exactly. A row that float16 cannot represent that
// well is flagged NOT_FINITE.
//
// A bias, plus the middle of the codes times the scale, becomes elements of the
// columns that quantized_matmul_split adds to x, in units of 2^-group_shift.
//
// Before the include: the tensors scales and biases; the buffers scaled_16, scaled_32, w_more and w_exponents; BITS,
// PARTS (of x), W_PARTS and FRAGMENTS; and p.weights, the QuantizedMatMulScalesParams.
#ifndef QUANTIZED_SCALES_GLSL
#define QUANTIZED_SCALES_GLSL

#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require

#include "math.glsl"
#include "minifloat.glsl"
#include "float16_parts.glsl"

#define SMALL_FLOATS (scales_DT == DT_UINT8)
// A bound of the magnitudes of codes minus their middle, and their smallest step. E2M1 codes are doubled, and their
// scales halved.
#define TILES_BOUND (!SMALL_FLOATS ? float(1u << (BITS - 1)) : BITS == 4 ? 16.0 : 512.0)
#define TILES_STEP (!SMALL_FLOATS || BITS == 4 ? 1.0 : 0.001953125)
// For quantized_matmul_fragments (fragment_codes.glsl), which computes (16 + code) s - 24 s, and makes 2^-14 (E2M1) or
// 2^-8 (E4M3) times a small float. An E2M1 times s is below s then.
#define FRAGMENT_EXPONENT (!SMALL_FLOATS ? 0 : BITS == 4 ? 14 : 8)
#define FRAGMENT_BOUND (!SMALL_FLOATS ? 24.0 : BITS == 4 ? 1.0 : 2.0)
#define FRAGMENT_STEP (!SMALL_FLOATS ? 1.0 : BITS == 4 ? 3.0517578125e-5 : 7.62939453125e-6)

#define CODE_BOUND (FRAGMENTS != 0 ? FRAGMENT_BOUND : TILES_BOUND)
#define CODE_STEP (FRAGMENTS != 0 ? FRAGMENT_STEP : TILES_STEP)

float scale_of(uint n, uint g) {
    uint at = p.weights.s_offset + n * p.weights.s_strides[0] + g * p.weights.s_strides[1];
    if (!SMALL_FLOATS) {
        return scales_load(at);
    }
    uint code = scales_bits(at);
    bool lost = p.weights.group_shift != 4u && code < 4u; // such a small scale may be lost in float32
    return lost ? make_nan() : small_scale(code, p.weights.group_shift) * (FRAGMENTS == 0 && BITS == 4 ? 0.5 : 1.0);
}

float bias_of(uint n, uint g, float scale) {
    uint at = p.weights.b_offset + n * p.weights.b_strides[0] + g * p.weights.b_strides[1];
    return biases_load(at) + scale * float(1u << (BITS - 1));
}

// Writes the parts of a bias, high (h) and low (l), to their columns. quantized_matmul_split writes those of the sums
// of x to the matching columns, so that each of the products h h, h l and l h is computed once.
void store_bias(uint n, uint g, float v) {
    float16_t h = float16_t(high_part(v));
    float16_t l = float16_t(v - high_part(v));
    uint at = n * p.weights.more + g;
    w_more[at] = h;
    if (W_PARTS == 1) {
        w_more[at + p.weights.groups] = PARTS == 1 ? h : l;
        if (PARTS == 1) {
            w_more[at + 2 * p.weights.groups] = l;
        }
        return;
    }
    uint second = p.weights.n * p.weights.more + at;
    w_more[second] = l;
    if (PARTS == 1) {
        w_more[at + p.weights.groups] = h;
        w_more[second + p.weights.groups] = float16_t(0.0);
    }
}

// quantized_matmul_fragments reads a scale twice in a word, or those of two groups of 16 columns.
void store_scale(uint n, uint g, float16_t scale) {
    if (FRAGMENTS == 0 || p.weights.group_shift == 4) {
        scaled_16[n * p.weights.groups + g] = scale;
        return;
    }
    scaled_16[(n * p.weights.groups + g) * 2] = scale;
    scaled_16[(n * p.weights.groups + g) * 2 + 1] = scale;
}

// Called by whole subgroups.
void prepare_weights(uint n) {
    if (n >= p.weights.n) {
        return;
    }
    float top = 0.0;
    bool finite = true;
    for (uint g = gl_SubgroupInvocationID; g < p.weights.groups; g += gl_SubgroupSize) {
        float scale = scale_of(n, g);
        finite = finite && magnitude_bits(scale) < INF_BITS;
        top = max(top, abs(scale) * CODE_BOUND);
        if (!SMALL_FLOATS) {
            float bias = bias_of(n, g, scale);
            finite = finite && magnitude_bits(bias) < INF_BITS;
            top = max(top, scale_by(abs(bias), int(p.weights.group_shift)));
        }
    }
    top = subgroupMax(top);
    finite = subgroupAll(finite) && magnitude_bits(top) < INF_BITS;
    int e = finite ? row_exponent(top) : 0;
    bool exact = true;
    for (uint g = gl_SubgroupInvocationID; g < p.weights.groups; g += gl_SubgroupSize) {
        float scale = scale_of(n, g);
        float scaled = finite ? scale_by(scale, e) : 0.0;
        if (W_PARTS == 1) {
            bool held = float(float16_t(scaled * CODE_STEP)) == scaled * CODE_STEP;
            exact = exact && held && (scaled != 0.0 || scale == 0.0);
            store_scale(n, g, float16_t(scaled));
        } else {
            exact = exact && (abs(scaled) >= 0.000244140625 || scale == 0.0);
            scaled_32[n * p.weights.groups + g] = scaled;
        }
        if (!SMALL_FLOATS) {
            store_bias(n, g, finite ? scale_by(scale_by(bias_of(n, g, scale), int(p.weights.group_shift)), e) : 0.0);
        }
    }
    exact = subgroupAll(exact);
    uint copies = SMALL_FLOATS ? 0u : BIAS_COPIES(PARTS, W_PARTS);
    for (uint i = copies * p.weights.groups + gl_SubgroupInvocationID; i < p.weights.more; i += gl_SubgroupSize) {
        [[unroll]] for (uint part = 0; part < W_PARTS; part++) {
            w_more[(part * p.weights.n + n) * p.weights.more + i] = float16_t(0.0);
        }
    }
    if (subgroupElect()) {
        w_exponents[n] = finite && exact ? (FRAGMENTS == 0 ? 0 : FRAGMENT_EXPONENT) - e : NOT_FINITE;
    }
}

#endif
