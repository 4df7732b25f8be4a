// A tile of a matrix product on cooperative matrices. Operands are sums of
// float16 parts: of A one or two, of B one or two; the product of two second
// parts is below float32's precision and left out.
//
// Shared memory holds DEPTH columns of both operands, in runs of 8 elements; the
// next ones are loaded from memory meanwhile. Subgroups have
// the blocks of matrix_blocks.glsl, whose sums stay in registers.
//
// Before the include: MATRIX_SPEC, the first of three specialization constants, and
// BLOCK_SPEC, of five more;
// and uvec4 a_run(uint part, uint m, uint run), which returns a run of A. Rows of
// A are padded to a multiple of DEPTH; for m past the last row it may return
// anything. The kernel fills B itself: each thread makes B_TURNS runs, those of
// b_row(turn) and b_run(turn) if b_exists(turn), and hands them to set_b.
#ifndef MATRIX_TILES_GLSL
#define MATRIX_TILES_GLSL

#extension GL_KHR_shader_subgroup_vote : require

#include "coopmat.glsl"
#include "matrix_blocks.glsl"

layout(constant_id = MATRIX_SPEC) const uint A_PARTS = 2;
layout(constant_id = MATRIX_SPEC + 1) const uint B_PARTS = 1;
layout(constant_id = MATRIX_SPEC + 2) const uint DEPTH = 32;

const uint RUNS = DEPTH / 8;
const uint PITCH = RUNS + 1; // odd, to avoid bank conflicts
const uint A_RUNS = A_PARTS * TILE_M * RUNS;
const uint B_RUNS = TILE_N * RUNS; // of one part
const uint A_TURNS = (A_RUNS + THREADS - 1) / THREADS;
const uint B_TURNS = (B_RUNS + THREADS - 1) / THREADS;
const uint B_FROM = A_PARTS * TILE_M * PITCH;
const uint OPERANDS = B_FROM + B_PARTS * TILE_N * PITCH;
const uint QUADS = COLUMNS * (FRAGMENT / 4); // of a row of a subgroup's results
const uint STAGE_PITCH = QUADS + 1;
const uint STAGE = FRAGMENT * STAGE_PITCH;             // of a subgroup
const uint STAGES = WAVES_M * WAVES_N * STAGE;

shared uvec4 tiles[OPERANDS > STAGES ? OPERANDS : STAGES]; // operands; at the end, results

uvec4 next_a[A_TURNS];
MATRIX_C acc[ROWS][COLUMNS];

void tiles_clear() {
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            acc[i][j] = MATRIX_C(0.0);
        }
    }
}

void load_a(uint m0, uint run0) {
    [[unroll]] for (uint t = 0; t < A_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (A_RUNS % THREADS == 0 || i < A_RUNS) {
            uint row = i / RUNS;
            next_a[t] = a_run(row / TILE_M, m0 + row % TILE_M, run0 + i % RUNS);
        }
    }
}

void set_a() {
    [[unroll]] for (uint t = 0; t < A_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (A_RUNS % THREADS == 0 || i < A_RUNS) {
            tiles[i / RUNS * PITCH + i % RUNS] = next_a[t];
        }
    }
}

// The row of the tile and the run of DEPTH that a thread fills in B.
uint b_row(uint turn) { return (turn * THREADS + gl_LocalInvocationIndex) / RUNS; }
uint b_run(uint turn) { return (turn * THREADS + gl_LocalInvocationIndex) % RUNS; }
bool b_exists(uint turn) {
    return B_RUNS % THREADS == 0 || turn * THREADS + gl_LocalInvocationIndex < B_RUNS;
}
void set_b(uint part, uint turn, uvec4 run) {
    tiles[B_FROM + (part * TILE_N + b_row(turn)) * PITCH + b_run(turn)] = run;
}

void tiles_multiply() {
    uint a_from = wave_m() * PITCH;
    uint b_from = B_FROM + wave_n() * PITCH;
    [[unroll]] for (uint step_ = 0; step_ < DEPTH / FRAGMENT; step_++) {
        MATRIX_B b[B_PARTS][COLUMNS];
        [[unroll]] for (uint part = 0; part < B_PARTS; part++) {
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                matrix_load_columns(b[part][j], tiles, b_from + (part * TILE_N + j * FRAGMENT) * PITCH + step_ * 2, PITCH);
            }
        }
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            MATRIX_A a;
            matrix_load(a, tiles, a_from + i * FRAGMENT * PITCH + step_ * 2, PITCH);
            [[unroll]] for (uint part = 0; part < B_PARTS; part++) {
                [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                    acc[i][j] = matrix_mul_add(a, b[part][j], acc[i][j]);
                }
            }
            if (A_PARTS > 1) {
                matrix_load(a, tiles, a_from + (TILE_M + i * FRAGMENT) * PITCH + step_ * 2, PITCH);
                [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                    acc[i][j] = matrix_mul_add(a, b[0][j], acc[i][j]);
                }
            }
        }
    }
}

// Calls STORE(m, n, vec4) for every four neighbouring results.
#define TILES_STORE(m0, n0, STORE) \
    barrier(); \
    uint stage_from = gl_SubgroupID * STAGE; \
    [[unroll]] for (uint i = 0; i < ROWS; i++) { \
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) { \
            matrix_store(acc[i][j], tiles, stage_from + j * (FRAGMENT / 4), STAGE_PITCH); \
        } \
        subgroupBarrier(); \
        [[dont_unroll]] for (uint at = gl_SubgroupInvocationID; at < FRAGMENT * QUADS; at += LANES) { \
            uint row = at / QUADS; \
            STORE((m0) + wave_m() + i * FRAGMENT + row, (n0) + wave_n() + at % QUADS * 4, \
                  uintBitsToFloat(tiles[stage_from + row * STAGE_PITCH + at % QUADS])); \
        } \
        subgroupBarrier(); \
    }

// After TILES_STORE: stores the results of rows and columns again that float16 parts cannot represent, by
// PLAIN(m, n). FLAGGED_M(m) and FLAGGED_N(n) tell which ones these are.
#define TILES_STORE_PLAIN(m0, n0, FLAGGED_M, FLAGGED_N, PLAIN) \
    memoryBarrierBuffer(); \
    barrier(); \
    bool flagged = false; \
    for (uint i = gl_SubgroupInvocationID; i < ROWS * FRAGMENT; i += LANES) { \
        flagged = flagged || FLAGGED_M((m0) + wave_m() + i); \
    } \
    for (uint i = gl_SubgroupInvocationID; i < COLUMNS * FRAGMENT; i += LANES) { \
        flagged = flagged || FLAGGED_N((n0) + wave_n() + i); \
    } \
    if (subgroupAny(flagged)) { \
        for (uint i = gl_SubgroupInvocationID; i < ROWS * COLUMNS * FRAGMENT * FRAGMENT; i += LANES) { \
            uint m = (m0) + wave_m() + i / (COLUMNS * FRAGMENT); \
            uint n = (n0) + wave_n() + i % (COLUMNS * FRAGMENT); \
            if (FLAGGED_M(m) || FLAGGED_N(n)) { \
                PLAIN(m, n); \
            } \
        } \
    }

#endif
