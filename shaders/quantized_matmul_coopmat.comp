// out[m, n] = sum over k of x[m, k] * w[n, k] by cooperative matrices. Codes are
// exact in float16, and so are the parts of x that quantized_matmul_split made:
//
//   out = 2^e * sum over groups of (scale * (codes . x) + bias * sum(x))
//
// codes . x is summed in one set of matrices; at the end of each group it goes,
// times its scale, to another. All sums are float32.
//
// A workgroup makes WAVES_M * WAVES_N blocks of ROWS by COLUMNS matrices, one for
// each subgroup, and takes DEPTH columns of x and w at a time; while it
// multiplies these, the next are on their way.
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
#include "rows.glsl"
#include "coopmat.glsl"

TENSOR_IN(0, x, 1)
TENSOR_OUT(4, y, 5)
layout(set = 0, binding = 5) readonly buffer Parts { uvec4 parts[]; };
layout(set = 0, binding = 6) readonly buffer Sums { float sums[]; };
layout(set = 0, binding = 7) readonly buffer Exponents { int exponents[]; };
layout(constant_id = 6) const uint PARTS = 2;
layout(constant_id = 7) const uint GROUP_SHIFT = 7;
layout(constant_id = 8) const uint DEPTH = 32;
layout(constant_id = 9) const uint ROWS = 2;
layout(constant_id = 10) const uint COLUMNS = 2;
layout(constant_id = 11) const uint WAVES_M = 2;
layout(constant_id = 12) const uint WAVES_N = 2;
layout(constant_id = 13) const uint BUFFERS = 2;
layout(constant_id = 14) const uint LANES = 32;

layout(push_constant) uniform Push { QuantizedMatMulParams p; };

const uint THREADS = WAVES_M * WAVES_N * LANES;
const uint TILE_M = WAVES_M * ROWS * FRAGMENT;
const uint TILE_N = WAVES_N * COLUMNS * FRAGMENT;
const uint GROUP = 1u << GROUP_SHIFT;
const uint GROUPS = DEPTH > GROUP ? DEPTH / GROUP : 1u; // that end within DEPTH columns
const uint RUNS = DEPTH / 8;                             // of 8 float16 elements, a quad of words each
const uint PITCH = RUNS + 1;                             // odd, against bank conflicts
const uint A_RUNS = PARTS * TILE_M * RUNS;
const uint B_RUNS = TILE_N * RUNS;
const uint A_TURNS = (A_RUNS + THREADS - 1) / THREADS;
const uint B_TURNS = (B_RUNS + THREADS - 1) / THREADS;
const uint M_TURNS = (TILE_M * GROUPS + THREADS - 1) / THREADS;
const uint N_TURNS = (TILE_N * GROUPS + THREADS - 1) / THREADS;
const uint STAGE_PITCH = FRAGMENT + 4;

shared uvec4 tile_a[BUFFERS * PARTS * TILE_M * PITCH];
shared uvec4 tile_b[BUFFERS * TILE_N * PITCH];
shared float group_sums[BUFFERS * GROUPS * TILE_M];
shared float group_scales[BUFFERS * GROUPS * TILE_N];
shared float group_biases[BUFFERS * GROUPS * TILE_N];
shared float stage[WAVES_M * WAVES_N * FRAGMENT * STAGE_PITCH];

// What comes from memory while the tile before is multiplied.
uvec4 next_a[A_TURNS];
uvec2 next_b[B_TURNS];
float next_sums[M_TURNS];
vec2 next_affine[N_TURNS];

MATRIX_C group_acc[ROWS][COLUMNS];
MATRIX_C acc[ROWS][COLUMNS];

bool ends_group(uint k0) { return DEPTH >= GROUP || ((k0 + DEPTH) & (GROUP - 1u)) == 0u; }

void load_a(uint m0, uint k0) {
    [[unroll]] for (uint t = 0; t < A_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint row = i / RUNS;
        uint k = k0 + i % RUNS * 8;
        uint part = row / TILE_M;
        uint m = min(m0 + row % TILE_M, p.x.rows - 1);
        next_a[t] = uvec4(0);
        if (i < A_RUNS && k < p.x.cols) {
            next_a[t] = parts[((part * p.x.rows + m) * p.x.cols + k) / 8];
        }
    }
}

void load_b(uint n0, uint k0) {
    [[unroll]] for (uint t = 0; t < B_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint n = min(n0 + i / RUNS, p.n - 1);
        uint k = k0 + i % RUNS * 8;
        next_b[t] = uvec2(0);
        if (i < B_RUNS && k < p.x.cols) {
            uint bit = k * BITS;
            uint at = p.w_offset + n * p.w_strides[0] + (bit >> 5);
            next_b[t].x = w.data[at];
            if ((bit & 31u) + 8 * BITS > 32) {
                next_b[t].y = w.data[at + 1];
            }
        }
    }
}

void load_groups(uint m0, uint n0, uint k0) {
    if (!ends_group(k0)) {
        return;
    }
    uint group = k0 >> GROUP_SHIFT;
    [[unroll]] for (uint t = 0; t < M_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint g = group + i / TILE_M;
        uint m = min(m0 + i % TILE_M, p.x.rows - 1);
        next_sums[t] = i < TILE_M * GROUPS && g < p.x.cols >> GROUP_SHIFT ? sums[g * p.x.rows + m] : 0.0;
    }
    [[unroll]] for (uint t = 0; t < N_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint g = group + i / TILE_N;
        uint n = min(n0 + i % TILE_N, p.n - 1);
        next_affine[t] = vec2(0.0);
        if (i < TILE_N * GROUPS && g < p.x.cols >> GROUP_SHIFT) {
            next_affine[t] = vec2(scales_load(p.s_offset + n * p.s_strides[0] + g * p.s_strides[1]),
                                  biases_load(p.b_offset + n * p.b_strides[0] + g * p.b_strides[1]));
        }
    }
}

// Two codes, in the low bits of v's halves, as float16: 1024 + code is exact.
uint code_pair(uint v) {
    return packFloat2x16(unpackFloat2x16((v & (CODE_MASK * 0x10001u)) | 0x64006400u) - f16vec2(1024.0));
}

// Eight codes that start at bit `bit` of two words, as pairs (0,4), (1,5), …
uvec4 decode_run(uvec2 words, uint bit) {
    uint low = words.x;
    uint high = words.y;
    if (BITS != 4 && BITS != 8 && bit != 0) {
        low = (words.x >> bit) | (words.y << (32u - bit));
        high = words.y >> bit;
    }
    uvec4 r;
    const uint half_bits = 4 * BITS;
    if (BITS <= 4) {
        uint v = BITS == 4 ? low : (low & ((1u << half_bits) - 1u)) | ((low >> half_bits) << 16);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            r[i] = code_pair(v >> (BITS * i));
        }
        return r;
    }
    uint other = BITS == 8 ? high : (low >> (half_bits & 31u)) | (high << ((32u - half_bits) & 31u));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        r[i] = code_pair(((low >> (BITS * i)) & CODE_MASK) | (((other >> (BITS * i)) & CODE_MASK) << 16));
    }
    return r;
}

void store_tiles(uint k0, uint buf) {
    [[unroll]] for (uint t = 0; t < A_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < A_RUNS) {
            tile_a[(buf * PARTS * TILE_M + i / RUNS) * PITCH + i % RUNS] = next_a[t];
        }
    }
    [[unroll]] for (uint t = 0; t < B_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < B_RUNS) {
            tile_b[(buf * TILE_N + i / RUNS) * PITCH + i % RUNS] =
                decode_run(next_b[t], ((k0 + i % RUNS * 8) * BITS) & 31u);
        }
    }
    if (!ends_group(k0)) {
        return;
    }
    [[unroll]] for (uint t = 0; t < M_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < TILE_M * GROUPS) {
            group_sums[buf * GROUPS * TILE_M + i] = next_sums[t];
        }
    }
    [[unroll]] for (uint t = 0; t < N_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < TILE_N * GROUPS) {
            group_scales[buf * GROUPS * TILE_N + i] = next_affine[t].x;
            group_biases[buf * GROUPS * TILE_N + i] = next_affine[t].y;
        }
    }
}

uint wave_m() { return gl_SubgroupID / WAVES_N * ROWS * FRAGMENT; } // the subgroup's block in the tile
uint wave_n() { return gl_SubgroupID % WAVES_N * COLUMNS * FRAGMENT; }

// Adds the products of one step of 16 columns.
void multiply_step(uint buf, uint step_) {
    MATRIX_B b[COLUMNS];
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        matrix_load_columns(b[j], tile_b, (buf * TILE_N + wave_n() + j * FRAGMENT) * PITCH + step_ * 2, PITCH);
    }
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint part = 0; part < PARTS; part++) {
            MATRIX_A a;
            matrix_load(a, tile_a, ((buf * PARTS + part) * TILE_M + wave_m() + i * FRAGMENT) * PITCH + step_ * 2,
                        PITCH);
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                group_acc[i][j] = matrix_mul_add(a, b[j], group_acc[i][j]);
            }
        }
    }
}

// Takes over the group that has ended.
void add_group(uint at) {
    MATRIX_C row_sums[ROWS];
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        matrix_load_columns(row_sums[i], group_sums, at * TILE_M + wave_m() + i * FRAGMENT, 0);
    }
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        MATRIX_C scale, bias;
        matrix_load(scale, group_scales, at * TILE_N + wave_n() + j * FRAGMENT, 0);
        matrix_load(bias, group_biases, at * TILE_N + wave_n() + j * FRAGMENT, 0);
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            [[unroll]] for (uint e = 0; e < acc[i][j].length(); e++) {
                acc[i][j][e] += scale[e] * group_acc[i][j][e] + bias[e] * row_sums[i][e];
            }
            group_acc[i][j] = MATRIX_C(0.0);
        }
    }
}

void multiply_tiles(uint k0, uint buf) {
    [[unroll]] for (uint step_ = 0; step_ < DEPTH / FRAGMENT; step_++) {
        multiply_step(buf, step_);
        if (DEPTH >= GROUP && ((step_ + 1) * FRAGMENT & (GROUP - 1u)) == 0u) {
            add_group(buf * GROUPS + step_ * FRAGMENT / GROUP);
        }
    }
    if (DEPTH < GROUP && ends_group(k0)) {
        add_group(buf);
    }
}

// A result whose row of x has infinities or NaNs, which no part holds.
float plain_product(uint m, uint n) {
    uint from = row_start(p.x, m);
    float sum = 0.0;
    for (uint k = 0; k < p.x.cols; k++) {
        uint g = k >> GROUP_SHIFT;
        float code = float(affine_code(p.w_offset + n * p.w_strides[0], 1, k));
        float scale = scales_load(p.s_offset + n * p.s_strides[0] + g * p.s_strides[1]);
        float bias = biases_load(p.b_offset + n * p.b_strides[0] + g * p.b_strides[1]);
        sum += x_load(from + k * p.x.col_stride) * (scale * code + bias);
    }
    return sum;
}

// Writes a matrix of results; the subgroup's part of stage holds them.
void store_matrix(uint m0, uint n0, uint from) {
    for (uint i = gl_SubgroupInvocationID; i < FRAGMENT * FRAGMENT; i += LANES) {
        uint m = m0 + i / FRAGMENT;
        uint n = n0 + i % FRAGMENT;
        if (m < p.x.rows && n < p.n) {
            int e = exponents[m];
            float v = e == NOT_FINITE ? plain_product(m, n)
                                      : scale_by(stage[from + i / FRAGMENT * STAGE_PITCH + i % FRAGMENT], e);
            y_store(p.out_offset + m * p.n + n, v);
        }
    }
}

void store_block(uint m0, uint n0) {
    uint from = gl_SubgroupID * FRAGMENT * STAGE_PITCH;
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            matrix_store(acc[i][j], stage, from, STAGE_PITCH);
            subgroupBarrier();
            store_matrix(m0 + wave_m() + i * FRAGMENT, n0 + wave_n() + j * FRAGMENT, from);
            subgroupBarrier();
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
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            acc[i][j] = MATRIX_C(0.0);
            group_acc[i][j] = MATRIX_C(0.0);
        }
    }
    load_a(m0, 0);
    load_b(n0, 0);
    load_groups(m0, n0, 0);
    uint buf = 0;
    for (uint k0 = 0; k0 < p.x.cols; k0 += DEPTH) {
        if (BUFFERS == 1) {
            barrier();
        }
        store_tiles(k0, buf);
        barrier();
        if (k0 + DEPTH < p.x.cols) {
            load_a(m0, k0 + DEPTH);
            load_b(n0, k0 + DEPTH);
            load_groups(m0, n0, k0 + DEPTH);
        }
        multiply_tiles(k0, buf);
        if (BUFFERS == 2) {
            buf ^= 1;
        }
    }
    store_block(m0, n0);
}
