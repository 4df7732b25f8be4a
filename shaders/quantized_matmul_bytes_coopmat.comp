// out[m, n] = sum over k of x[m, k] * w[n, k], perhaps plus a residual, by cooperative
// matrices of bytes, for affine codes. quantized_matmul_limbs has made rows of integers
// with LIMBS limbs of x. In a group of columns g, with the middle of the codes, as 8,
//
//   sum of x * w = scale * multiple * (sum of integer * (code - middle)) + (bias + middle * scale) * (sum of x)
//
// The sums of integers are exact: the products of a limb with the codes are added to
// those of the limb above, shifted by the bits of a limb. They become floats once for
// each group, those of the highest limb separately where the sum may exceed 32 bits.
//
// Shared memory holds DEPTH columns of all limbs and of the codes; the next codes are
// loaded from memory meanwhile. With SPLITS > 1, several workgroups process a range
// of columns each, and quantized_matmul_bytes_join adds up their sums.
//
// Without cooperative matrices (the last variant, for tests), each thread adds up some
// results by dot products.
//
// variants: narrow_khr_khr8 narrow_dot8
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#define AFFINE_SLOT 1
#define AFFINE_SPEC 1
#include "affine.glsl"
#include "math.glsl"
#include "quads.glsl"
#include "float_quads.glsl"

TENSOR_OUT(4, y, 4)
QUAD_BITS_OUT(4, y)
layout(set = 0, binding = 0) readonly buffer XPlanes { uvec4 x_planes[]; };
layout(set = 0, binding = 5) readonly buffer XFactors { vec2 x_factors[]; };
layout(set = 0, binding = 6) readonly buffer WFactors { vec2 w_factors[]; };
layout(set = 0, binding = 7) writeonly buffer Sums { vec4 sums[]; };
layout(constant_id = 5) const uint SPLITS = 1;
layout(constant_id = 6) const uint RESIDUAL = 0; // whether there is one, of y's dtype
#define residual_DT y_DT
QUADS_IN(8, residual)
layout(constant_id = 7) const uint GROUP_SHIFT = 7; // log2 of the columns of a group: 6 or 7

layout(constant_id = 13) const uint LIMBS = 3; // of x

layout(push_constant) uniform Push { QuantizedMatMulBytesParams q; };
#define p q.product

const uint DEPTH = 128;

// The steps of DEPTH columns that the workgroup takes.
uint first_step() { return gl_WorkGroupID.z * q.split_steps; }
uint end_step() { return min(first_step() + q.split_steps, (p.x.cols + DEPTH - 1) / DEPTH); }

#include "bytes_result.glsl"
#include "code_words.glsl"

const uint FRAGMENT = 16;
#define BLOCK_SPEC 8
#include "matrix_blocks.glsl"

// Shared memory, in quads.
const uint GROUPS = DEPTH >> GROUP_SHIFT;
const uint GROUP_QUADS = 1u << (GROUP_SHIFT - 4u); // of 16 columns, in a plane of a group
const uint GROUP_STEPS = GROUP_QUADS / 2;          // of the 32 columns of a matrix
const uint QUADS_DEEP = DEPTH / 16;
const uint PITCH = QUADS_DEEP + 1; // odd, to avoid bank conflicts
const uint W_FROM = LIMBS * TILE_M * PITCH;
const uint FACTORS_FROM = W_FROM + TILE_N * PITCH;
const uint SUMS_AT = TILE_M / 4; // after a group's multiples; then scales and biases
const uint SCALES_AT = TILE_M / 2;
const uint BIASES_AT = SCALES_AT + TILE_N / 4;
const uint GROUP_FACTORS = BIASES_AT + TILE_N / 4;
const uint OPERANDS = FACTORS_FROM + GROUPS * GROUP_FACTORS;

const uint RESULT_QUADS = TILE_N / 4; // of a row
const uint RESULT_PITCH = RESULT_QUADS + 1;
const uint RESULTS = TILE_M * RESULT_PITCH;

shared uvec4 tiles[OPERANDS > RESULTS ? OPERANDS : RESULTS]; // operands; at the end, results

// What a thread loads: the same quad of several rows.
const uint X_ROWS = THREADS / QUADS_DEEP; // at a time
const uint X_TURNS = TILE_M / X_ROWS;     // of each limb
const bool BY_UNITS = BITS % 4 != 0; // a thread loads whole units of 32 codes, not quads
const uint W_UNITS = DEPTH / 32, W_PARTS = BY_UNITS ? W_UNITS : W_UNITS * BITS / 4; // of codes of a row in memory
const uint W_ROWS = THREADS / W_PARTS;
const uint W_TURNS = TILE_N / W_ROWS;
const uint N_TURNS = (GROUPS * TILE_N + THREADS - 1) / THREADS;
const uint M_TURNS = (GROUPS * TILE_M + THREADS - 1) / THREADS;

uvec4 next_x[LIMBS * X_TURNS];
uvec4 next_w[BY_UNITS ? 1 : W_TURNS];
uint next_units[BY_UNITS ? W_TURNS * BITS : 1];
vec2 next_x_factors[M_TURNS], next_w_factors[N_TURNS];

uint x_at[X_TURNS], w_at[W_TURNS]; // where the thread's rows begin

uint groups() { return p.x.cols >> GROUP_SHIFT; }
uint x_quad() { return gl_LocalInvocationIndex % QUADS_DEEP; }
uint x_row() { return gl_LocalInvocationIndex / QUADS_DEEP; }
uint w_part() { return gl_LocalInvocationIndex % W_PARTS; }
uint w_row() { return gl_LocalInvocationIndex / W_PARTS; }

void locate(uint m0, uint n0) {
    [[unroll]] for (uint t = 0; t < X_TURNS; t++) {
        x_at[t] = min(m0 + t * X_ROWS + x_row(), p.x.rows - 1) * GROUP_QUADS + x_quad() % GROUP_QUADS;
    }
    [[unroll]] for (uint t = 0; t < W_TURNS; t++) {
        w_at[t] = (p.w_offset + min(n0 + t * W_ROWS + w_row(), p.n - 1) * p.w_strides[0]) / (BY_UNITS ? 1 : 4);
    }
}

void load_x(uint step_) {
    uint group = step_ * GROUPS + x_quad() / GROUP_QUADS;
    if (GROUPS > 1) {
        group = min(group, groups() - 1);
    }
    uint plane = p.x.rows * GROUP_QUADS;
    [[unroll]] for (uint limb = 0; limb < LIMBS; limb++) {
        [[unroll]] for (uint t = 0; t < X_TURNS; t++) {
            next_x[limb * X_TURNS + t] = x_planes[(group * PLANES + limb) * plane + x_at[t]];
        }
    }
}

void load_w(uint step_) {
    uint part = step_ * W_PARTS + w_part();
    if (GROUPS > 1) {
        part = min(part, p.x.cols / 32 * (W_PARTS / W_UNITS) - 1);
    }
    [[unroll]] for (uint t = 0; t < W_TURNS; t++) {
        if (!BY_UNITS) {
            next_w[t] = w_4.data[w_at[t] + part];
            continue;
        }
        [[unroll]] for (uint i = 0; i < BITS; i++) {
            next_units[t * BITS + i] = w.data[w_at[t] + part * BITS + i];
        }
    }
}

void load_factors(uint m0, uint n0, uint step_) {
    [[unroll]] for (uint t = 0; t < M_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint group = min(step_ * GROUPS + i / TILE_M, groups() - 1);
        next_x_factors[t] = x_factors[group * p.x.rows + min(m0 + i % TILE_M, p.x.rows - 1)];
    }
    [[unroll]] for (uint t = 0; t < N_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint group = min(step_ * GROUPS + i / TILE_N, groups() - 1);
        next_w_factors[t] = w_factors[group * p.n + min(n0 + i % TILE_N, p.n - 1)];
    }
}

// Four codes of fewer than 8 bits minus their middle.
uvec4 minus_middle(uvec4 v) { return (v + (128u - (1u << (BITS - 1))) * 0x01010101u) ^ 0x80808080u; }

// Half of a unit, as bytes.
uvec4 unit_bytes(uint t, uint half_unit) {
    uvec4 v;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        v[i] = FOUR_CODES(next_units, t * BITS, 4 * half_unit + i);
    }
    return minus_middle(v);
}

void set_float(uint from, uint i, float v) { tiles[from + i / 4][i & 3u] = floatBitsToUint(v); }

void set_operands() {
    uint x_to = x_row() * PITCH + x_quad();
    [[unroll]] for (uint limb = 0; limb < LIMBS; limb++) {
        [[unroll]] for (uint t = 0; t < X_TURNS; t++) {
            tiles[x_to + (limb * TILE_M + t * X_ROWS) * PITCH] = next_x[limb * X_TURNS + t];
        }
    }
    uint w_to = W_FROM + w_row() * PITCH + w_part() * (2 * W_UNITS / W_PARTS);
    [[unroll]] for (uint t = 0; t < W_TURNS; t++) {
        uint to = w_to + t * W_ROWS * PITCH;
        if (BY_UNITS) {
            tiles[to] = unit_bytes(t, 0);
            tiles[to + 1] = unit_bytes(t, 1);
            continue;
        }
        uvec4 v = next_w[t];
        if (BITS == 8) {
            tiles[to] = v ^ 0x80808080u;
            continue;
        }
        tiles[to] = minus_middle(uvec4(v.x, v.x >> 4, v.y, v.y >> 4) & 0x0f0f0f0fu);
        tiles[to + 1] = minus_middle(uvec4(v.z, v.z >> 4, v.w, v.w >> 4) & 0x0f0f0f0fu);
    }
    [[unroll]] for (uint t = 0; t < N_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < GROUPS * TILE_N) {
            uint from = FACTORS_FROM + i / TILE_N * GROUP_FACTORS;
            set_float(from + SCALES_AT, i % TILE_N, next_w_factors[t].x);
            set_float(from + BIASES_AT, i % TILE_N, next_w_factors[t].y);
        }
    }
    [[unroll]] for (uint t = 0; t < M_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < GROUPS * TILE_M) {
            uint from = FACTORS_FROM + i / TILE_M * GROUP_FACTORS;
            set_float(from, i % TILE_M, next_x_factors[t].x);
            set_float(from + SUMS_AT, i % TILE_M, next_x_factors[t].y);
        }
    }
}

#include "bytes_sums.glsl"

// Stores four neighbouring results, of which one exists at least.
void store_four(uint m, uint n, vec4 v) {
    if (SPLITS > 1) {
        sums[((gl_WorkGroupID.z * p.x.rows + m) * p.n + n) / 4] = v; // p.n is a multiple of 4
        return;
    }
    if (RESIDUAL != 0) {
        v += residual_quad(q.residual_offset + m * p.n + n); // as here
    }
    uint at = p.out_offset + m * p.n + n;
    if (p.n % 4 == 0) {
        STORE_FLOATS(y, at, v)
        return;
    }
    for (uint c = 0; c < min(4, p.n - n); c++) {
        y_store(at + c, v[c]);
    }
}

// Four neighbouring results of the tile: row at / RESULT_QUADS, columns from 4 * (at % RESULT_QUADS) on.
vec4 staged(uint at) {
    return uintBitsToFloat(tiles[at / RESULT_QUADS * RESULT_PITCH + at % RESULT_QUADS]);
}

// Stores these four, if they are finite, which it returns.
bool store_finite(uint m0, uint n0, uint at) {
    uint m = m0 + at / RESULT_QUADS, n = n0 + at % RESULT_QUADS * 4;
    vec4 v = staged(at);
    bool exists = m < p.x.rows && n < p.n;
    bool finite = magnitude_bits4(v) < INF_BITS;
    if (exists && finite) {
        store_four(m, n, v);
    }
    return finite || !exists;
}

// Computes and stores them, if they are not finite.
void store_others(uint m0, uint n0, uint at) {
    uint m = m0 + at / RESULT_QUADS, n = n0 + at % RESULT_QUADS * 4;
    vec4 v = staged(at);
    if (m < p.x.rows && n < p.n && magnitude_bits4(v) >= INF_BITS) {
        store_four(m, n, finite_or_plain(m, n, v));
    }
}

void store_tile(uint m0, uint n0) {
    barrier();
    stage_sums();
    barrier();
    const uint abreast = 4;
    const uint quads = TILE_M * RESULT_QUADS; // a multiple of 4 * THREADS
    bool finite = true;
    [[dont_unroll]] for (uint first = gl_LocalInvocationIndex; first < quads; first += abreast * THREADS) {
        [[unroll]] for (uint k = 0; k < abreast; k++) {
            finite = store_finite(m0, n0, first + k * THREADS) && finite;
        }
    }
    if (!finite) {
        [[dont_unroll]] for (uint at = gl_LocalInvocationIndex; at < quads; at += THREADS) {
            store_others(m0, n0, at);
        }
    }
}

void main() {
    uint tiles_m = (p.x.rows + TILE_M - 1) / TILE_M;
    uint m0 = workgroup_index() % tiles_m * TILE_M;
    uint n0 = workgroup_index() / tiles_m * TILE_N;
    if (n0 >= p.n) {
        return;
    }
    uint first = first_step(), end = end_step();
    clear_sums();
    locate(m0, n0);
    load_w(first);
    load_factors(m0, n0, first);
    [[dont_unroll]] for (uint step_ = first; step_ < end; step_++) {
        barrier();
        load_x(step_); // earlier they would take registers while matrices are multiplied
        set_operands();
        barrier();
        if (step_ + 1 < end) {
            load_w(step_ + 1);
            load_factors(m0, n0, step_ + 1);
        }
        [[unroll]] for (uint group = 0; group < GROUPS; group++) {
            if (group == 0 || step_ * GROUPS + group < groups()) {
                add_group(group);
            }
        }
    }
    store_tile(m0, n0);
}
