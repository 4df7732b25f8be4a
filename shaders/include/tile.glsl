// A tile of a matrix product in the registers of one workgroup. The kernel
// fills tile_a and tile_b with TILE_K columns of a and rows of b as floats,
// calls tile_multiply, and at the end takes each result from tile_acc.
//
// A thread owns a block of 4*TILE_QUADS by 4*TILE_QUADS results, as quads of
// neighbours that lie TILE_M / TILE_QUADS (TILE_N / TILE_QUADS) apart, so that
// adjacent threads read adjacent quads.
//
// Before the include: TILE_SPEC, the first of two specialization constants: the
// number of threads along m and along n; and TILE_QUADS, 1 or 2.
#ifndef TILE_GLSL
#define TILE_GLSL

#extension GL_EXT_control_flow_attributes : require

layout(constant_id = TILE_SPEC) const uint THREADS_M = 16;
layout(constant_id = TILE_SPEC + 1) const uint THREADS_N = 16;
const uint TILE_K = 32 / TILE_QUADS;
const uint TILE_M = THREADS_M * 4 * TILE_QUADS;
const uint TILE_N = THREADS_N * 4 * TILE_QUADS;

// The tiles of a and b: rows along k, of quads along m (along n). The odd row length prevents bank conflicts of stores
// along k.
const uint A_PITCH = TILE_M / 4 + 1;
const uint B_PITCH = TILE_N / 4 + 1;
shared vec4 tile_a[TILE_K * A_PITCH];
shared vec4 tile_b[TILE_K * B_PITCH];

// Results: [row of the thread][quad of columns].
vec4 tile_acc[4 * TILE_QUADS][TILE_QUADS];

void tile_set_a(uint m, uint k, float v) { tile_a[k * A_PITCH + (m >> 2)][m & 3u] = v; }
void tile_set_b(uint k, uint n, float v) { tile_b[k * B_PITCH + (n >> 2)][n & 3u] = v; }

uint tile_thread_m() { return gl_LocalInvocationIndex / THREADS_N; }
uint tile_thread_n() { return gl_LocalInvocationIndex % THREADS_N; }

// Row (column) of the tile that the thread's block has at r (at quad q, component c).
uint tile_row(uint r) { return (tile_thread_m() + (r >> 2) * THREADS_M) * 4u + (r & 3u); }
uint tile_col(uint q, uint c) { return (tile_thread_n() + q * THREADS_N) * 4u + c; }

// The element that a thread fills in turn i: 8 along k, then along the other
// side; 32 neighbours access 32 banks, and memory is read in runs of 8.
uint tile_fill_k(uint i, uint side) { return (i & 7u) + i / (8u * side) * 8u; }
uint tile_fill_side(uint i, uint side) { return (i >> 3) % side; }

void tile_clear() {
    [[unroll]] for (uint r = 0; r < 4 * TILE_QUADS; r++) {
        [[unroll]] for (uint q = 0; q < TILE_QUADS; q++) {
            tile_acc[r][q] = vec4(0.0);
        }
    }
}

// Call it between a barrier after the fills and one before the next fills.
void tile_multiply_row(uint k) {
    uint at = k * B_PITCH + tile_thread_n();
    vec4 b[TILE_QUADS];
    [[unroll]] for (uint q = 0; q < TILE_QUADS; q++) {
        b[q] = tile_b[at + q * THREADS_N];
    }
    [[unroll]] for (uint h = 0; h < TILE_QUADS; h++) {
        vec4 a = tile_a[k * A_PITCH + tile_thread_m() + h * THREADS_M];
        [[unroll]] for (uint c = 0; c < 4; c++) {
            [[unroll]] for (uint q = 0; q < TILE_QUADS; q++) {
                tile_acc[h * 4 + c][q] += a[c] * b[q];
            }
        }
    }
}

void tile_multiply() {
    [[dont_unroll]] for (uint k = 0; k < TILE_K; k += 4) { // unrolled by 4: unrolling it all would take drivers long to compile
        [[unroll]] for (uint i = 0; i < 4; i++) {
            tile_multiply_row(k + i);
        }
    }
}

#endif
