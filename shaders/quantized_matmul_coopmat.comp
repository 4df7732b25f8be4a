// out[m, n] = sum over k of x[m, k] * w[n, k] by cooperative matrices, of sums of
// float16 parts. quantized_matmul_split makes those of x. This kernel makes those
// of w from its codes and from the scales that quantized_matmul_split has prepared:
//
//   w[n, k] = scale * (code - middle) + (bias + middle * scale)
//
// The second summand is constant in a group, so its product with the sum of x over
// the group suffices: these sums are additional columns at the end of each row.
//
// With SPLITS > 1, several workgroups process a range of columns each, and
// quantized_matmul_join adds up their sums.
//
// variants: narrow_khr narrow_nv
// requires: float16 subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 1
#define AFFINE_SPEC 2
#include "affine.glsl"
#include "math.glsl"
#include "quads.glsl"
#include "float16_parts.glsl"

layout(constant_id = 1) const uint x_DT = DT_FLOAT32;
TENSOR_OUT(4, y, 5)
QUAD_BITS_OUT(4, y)
layout(set = 0, binding = 0) readonly buffer XParts { uvec4 x_parts[]; };
layout(set = 0, binding = 0) readonly buffer XWords { uint x_words[]; };
layout(set = 0, binding = 5) readonly buffer Scaled16 { int16_t scaled_16[]; };
layout(set = 0, binding = 5) readonly buffer Scaled32 { int scaled_32[]; };
layout(set = 0, binding = 6) readonly buffer WMore { uvec4 w_more[]; };
layout(set = 0, binding = 7) readonly buffer XExponents { int x_exponents[]; };
layout(set = 0, binding = 8) readonly buffer WExponents { int w_exponents[]; };
layout(set = 0, binding = 9) writeonly buffer Sums { vec4 sums[]; };
layout(constant_id = 6) const uint SPLITS = 1;

layout(push_constant) uniform Push { QuantizedMatMulMatrixParams q; };
#define p q.product

uvec4 a_run(uint part, uint m, uint run) {
    return x_parts[(part * p.x.rows + min(m, p.x.rows - 1)) * q.x_runs + run];
}

#define MATRIX_SPEC 7
#define BLOCK_SPEC 10
#include "matrix_tiles.glsl"
const uint FRAGMENTS = 0;
#include "fragment_runs.glsl"
#include "quantized_result.glsl"

uvec2 next_b[B_TURNS];
int next_scale[B_TURNS]; // its bits: converting it where it is loaded would wait for it there

void load_b(uint n0, uint run0) {
    [[unroll]] for (uint t = 0; t < B_TURNS; t++) {
        uint k = (run0 + b_run(t)) * 8;
        if (b_exists(t) && k < p.x.cols) {
            uint n = min(n0 + b_row(t), p.n - 1);
            uint bit = k * BITS;
            uint at = p.w_offset + n * p.w_strides[0] + (bit >> 5);
            next_b[t].x = w.data[at];
            if ((bit & 31u) + 8 * BITS > 32) {
                next_b[t].y = w.data[at + 1];
            }
            uint group = n * (p.x.cols >> p.group_shift) + (k >> p.group_shift);
            next_scale[t] = B_PARTS == 1 ? int(scaled_16[group]) : scaled_32[group];
        }
    }
}

// The float16 of an E4M3 without its sign, plus 2^-6 if it is subnormal: a device may read subnormal numbers as zero.
uint e4m3_bits(uint m) { return m == 0x7fu ? 0x7e00u : (m << 7) + (m < 8u ? 0x2400u : 0x2000u); }

// Two codes, from the low bits of v's halves, minus their middle; twice their value if they are E2M1. 1024 plus a whole
// number is exact.
f16vec2 code_pair(uint v) {
    if (!SMALL_FLOATS) {
        return unpackFloat2x16((v & (CODE_MASK * 0x10001u)) | 0x64006400u) - f16vec2(1024.0 + float(1u << (BITS - 1)));
    }
    uint low = v & 0x7fu;
    uint high = (v >> 16) & 0x7fu;
    if (BITS == 4) {
        const uint twice = 0xc8643210u; // 0, 0.5, 1, 1.5, 2, 3, 4, 6
        uint bits = ((twice >> ((low & 7u) * 4u)) & 15u) | (((twice >> ((high & 7u) * 4u)) & 15u) << 16);
        f16vec2 r = unpackFloat2x16(bits | 0x64006400u) - f16vec2(1024.0);
        return unpackFloat2x16(packFloat2x16(r) ^ ((v & 0x80008u) << 12));
    }
    f16vec2 r = unpackFloat2x16(e4m3_bits(low) | (e4m3_bits(high) << 16)) -
                f16vec2(low < 8u ? 0.015625 : 0.0, high < 8u ? 0.015625 : 0.0);
    return unpackFloat2x16(packFloat2x16(r) ^ ((v & 0x800080u) << 8));
}

// Eight codes that start at bit `bit` of two words, as pairs (0,4), (1,5), …
void decode_run(uvec2 words, uint bit, out f16vec2 r[4]) {
    uint low = words.x;
    uint high = words.y;
    if (BITS != 4 && BITS != 8 && bit != 0) {
        low = (words.x >> bit) | (words.y << (32u - bit));
        high = words.y >> bit;
    }
    const uint half_bits = 4 * BITS;
    if (BITS <= 4) {
        uint v = BITS == 4 ? low : (low & ((1u << half_bits) - 1u)) | ((low >> half_bits) << 16);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            r[i] = code_pair(v >> (BITS * i));
        }
        return;
    }
    uint other = BITS == 8 ? high : (low >> (half_bits & 31u)) | (high << ((32u - half_bits) & 31u));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        r[i] = code_pair(((low >> (BITS * i)) & CODE_MASK) | (((other >> (BITS * i)) & CODE_MASK) << 16));
    }
}

void set_weights(uint t, uint k) {
    f16vec2 codes[4];
    decode_run(next_b[t], (k * BITS) & 31u, codes);
    if (B_PARTS == 1) { // exact
        f16vec2 s = unpackFloat2x16(uint(next_scale[t] & 0xffff) * 0x10001u);
        set_b(0, t, uvec4(packFloat2x16(codes[0] * s), packFloat2x16(codes[1] * s), packFloat2x16(codes[2] * s),
                               packFloat2x16(codes[3] * s)));
        return;
    }
    float scale = intBitsToFloat(next_scale[t]);
    vec4 low = vec4(codes[0].x, codes[1].x, codes[2].x, codes[3].x) * scale;
    vec4 high = vec4(codes[0].y, codes[1].y, codes[2].y, codes[3].y) * scale;
    vec4 a = high_part4(low);
    vec4 b = high_part4(high);
    set_b(0, t, pack_pairs(a, b));
    set_b(1, t, pack_pairs(low - a, high - b));
}

void set_b_tile(uint n0, uint run0) {
    const uint w_runs = p.x.cols / 8;
    [[unroll]] for (uint t = 0; t < B_TURNS; t++) {
        if (!b_exists(t)) {
            continue;
        }
        uint run = run0 + b_run(t);
        if (run < w_runs) {
            set_weights(t, run * 8);
            continue;
        }
        uint n = min(n0 + b_row(t), p.n - 1);
        [[unroll]] for (uint part = 0; part < B_PARTS; part++) {
            set_b(part, t, w_more[(part * p.n + n) * (q.x_runs - w_runs) + run - w_runs]);
        }
    }
}

void store_sums(uint m, uint n, vec4 v) {
    if (SPLITS == 1) {
        store_results(m, n, v);
    } else if (m < p.x.rows && n < p.n) { // p.n is a multiple of 4
        sums[((gl_WorkGroupID.z * p.x.rows + m) * p.n + n) / 4] = v;
    }
}

void main() {
    uint tiles_m = (p.x.rows + TILE_M - 1) / TILE_M;
    uint m0 = workgroup_index() % tiles_m * TILE_M;
    uint n0 = workgroup_index() / tiles_m * TILE_N;
    if (n0 >= p.n) {
        return;
    }
    uint first = gl_WorkGroupID.z * q.split_runs;
    uint end = SPLITS == 1 ? q.x_runs : min(first + q.split_runs, q.x_runs);
    tiles_clear();
    load_a(m0, first);
    load_b(n0, first);
    for (uint run = first; run < end; run += RUNS) {
        barrier();
        set_a();
        set_b_tile(n0, run);
        barrier();
        if (run + RUNS < end) {
            load_a(m0, run + RUNS);
            load_b(n0, run + RUNS);
        }
        tiles_multiply();
    }
    TILES_STORE(m0, n0, store_sums)
    if (SPLITS == 1) {
        TILES_STORE_PLAIN(m0, n0, a_flagged, b_flagged, store_plain)
    }
}
