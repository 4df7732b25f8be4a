// projection.comp for several rows of x: the same sums, of the same integers, by
// matrices of bytes. A unit of 32 codes of 16 rows of w and one of 16 rows of x make
// one product of such matrices for each digit of x (projection_rows.comp); the
// integers come out exact, so what follows are the float sums of projection.comp,
// and a row of x gives the same bits in either kernel, whatever is beside it.
//
// A workgroup has TILES times 16 rows of w (with SiLU half of them of each matrix)
// and BLOCKS times 16 rows of x. Its teams, subgroups of 32 lanes, take CHUNK units
// at a time each, and add them up as the lanes of projection.comp do; then threads
// add up what the teams have: chunks to slices of LANES units, slices in the order of
// the columns. Codes of the next round are under way meanwhile.
//
// Without cooperative matrices (the last variants), each lane of a team has eight
// elements of a matrix and makes them by dot products.
//
// variants: narrow_khr8 narrow_dot8
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in; // TEAMS * 32

#include "quads.glsl"
#include "math.glsl"
#include "projection_sums.glsl"

layout(constant_id = 1) const uint y_DT = DT_FLOAT32; // the residual's too
layout(constant_id = 2) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 3) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 4) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 5) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 6) const uint SETS = 1;        // matrices
layout(constant_id = 7) const uint EPILOGUE = 0;    // PROJECTION_*, but no arg_max
layout(constant_id = 8) const uint LANES = 32;      // units of a slice
layout(constant_id = 9) const uint TEAMS = 8;       // a multiple of the chunks of a slice
layout(constant_id = 10) const uint CHUNK = 4;      // 4 or 8, at most LANES
layout(constant_id = 11) const uint TILES = 2;      // even with SiLU
layout(constant_id = 12) const uint BLOCKS = 1;
layout(constant_id = 13) const uint NORM = 0; // whether x is to be multiplied by 1/rms

layout(set = 0, binding = 0) readonly buffer Digits { uvec4 digits[]; };
layout(set = 0, binding = 1) readonly buffer Units { vec4 units[]; };
layout(set = 0, binding = 2) readonly buffer Factors { float factors[]; };
#define residual_DT y_DT
TENSOR_BLOCKS(15, residual, readonly)
TENSOR_LOADS(residual)

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint UNITS = COLS / 32;
const uint CHUNKS = (UNITS + CHUNK - 1) / CHUNK;
const uint SLICE_CHUNKS = LANES / CHUNK;
const uint ROUNDS = (CHUNKS + TEAMS - 1) / TEAMS;
const uint THREADS = TEAMS * 32;
const uint SIDES = PAIR ? 2 : 1;              // matrices of a workgroup
const uint SIDE_TILES = TILES / SIDES;        // of each
const uint GROUP_ROWS = SIDE_TILES * 16;      // of each
const uint GROUPS = (CHUNK >> GROUP_SHIFT) == 0 ? 1 : CHUNK >> GROUP_SHIFT; // of scales that a chunk meets
const uint PITCH = 2 * CHUNK + 1;             // of a row of codes in shared memory, in quads
const uint SCALES_FROM = 16 * PITCH;          // then scales and biases, by group: 16 and 16
const uint SUMS = TILES * BLOCKS * 64;        // what a team gives, in quads
const uint OPERANDS = SCALES_FROM + GROUPS * 8;
const uint TEAM_QUADS = OPERANDS > SUMS ? OPERANDS : SUMS;

shared uvec4 work[TEAMS * TEAM_QUADS];

#include "byte_tiles.glsl"

// Codes that are under way, and the words with their scales and biases.
uvec4 words[TILES * CHUNK / 2];
uint affine[TILES * GROUPS];

#define MATRIX(i, slot) \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block { uvec4 data[]; } w##i; \
    const uint scales##i##_DT = scales_DT; \
    const uint biases##i##_DT = biases_DT; \
    const uint y##i##_DT = y_DT; \
    TENSOR_BLOCKS(slot + 1, scales##i, readonly) \
    TENSOR_BITS(scales##i) \
    TENSOR_BLOCKS(slot + 2, biases##i, readonly) \
    TENSOR_BITS(biases##i) \
    TENSOR_BLOCKS(slot + 3, y##i, ) \
    TENSOR_STORES(y##i) \
    void fetch##i(uint first, uint unit, uint tile) { \
        [[unroll]] for (uint k = 0; k < CHUNK / 2; k++) { \
            uint at = k * 32 + team_lane(); \
            uint row = min(first + at / CHUNK, p.sets[i].n - 1); \
            uint from = (p.sets[i].w_offset + row * p.sets[i].w_stride) / 4; \
            words[tile * CHUNK / 2 + k] = w##i.data[from + min(unit + at % CHUNK, UNITS - 1)]; \
        } \
        [[unroll]] for (uint g = 0; g < GROUPS; g++) { \
            uint row = min(first + team_lane() % 16, p.sets[i].n - 1); \
            uint number = min((unit >> GROUP_SHIFT) + g, (UNITS - 1) >> GROUP_SHIFT); \
            affine[tile * GROUPS + g] = team_lane() < 16 ? scales##i##_bits(p.sets[i].s_offset + row * p.sets[i].s_stride + number) \
                                                         : biases##i##_bits(p.sets[i].b_offset + row * p.sets[i].b_stride + number); \
        } \
    }

MATRIX(0, 3)
MATRIX(1, 7)
MATRIX(2, 11)

uint matrix;    // that this workgroup works on
uint first_row; // of the workgroup
uint block;     // of x, the first

void locate() {
    uint blocks = (p.x_rows + 16 * BLOCKS - 1) / (16 * BLOCKS);
    uint group = workgroup_index() / blocks;
    block = workgroup_index() % blocks * BLOCKS;
    matrix = 0;
    if (!PAIR) {
        matrix = uint(SETS > 1 && group >= p.starts[0]) + uint(SETS > 2 && group >= p.starts[1]);
        group -= matrix == 0 ? 0 : p.starts[matrix - 1];
    }
    first_row = group * GROUP_ROWS;
}

// Starts the loads of a tile's chunk that begins at `unit`.
void fetch(uint tile, uint unit) {
    if (PAIR) {
        if (tile < SIDE_TILES) {
            fetch0(first_row + 16 * tile, unit, tile);
        } else {
            fetch1(first_row + 16 * (tile - SIDE_TILES), unit, tile);
        }
    } else if (SETS == 1 || matrix == 0) {
        fetch0(first_row + 16 * tile, unit, tile);
    } else if (SETS == 2 || matrix == 1) {
        fetch1(first_row + 16 * tile, unit, tile);
    } else {
        fetch2(first_row + 16 * tile, unit, tile);
    }
}

uint team_from() { return team() * TEAM_QUADS; }

// Brings the tile's codes into shared memory, a byte each, and its scales and biases.
void unpack(uint tile) {
    [[unroll]] for (uint k = 0; k < CHUNK / 2; k++) {
        uint at = k * 32 + team_lane();
        uint to = team_from() + at / CHUNK * PITCH + at % CHUNK * 2;
        uvec4 v = words[tile * CHUNK / 2 + k];
        work[to] = uvec4(v.x, v.x >> 4, v.y, v.y >> 4) & 0x0f0f0f0fu;
        work[to + 1] = uvec4(v.z, v.z >> 4, v.w, v.w >> 4) & 0x0f0f0f0fu;
    }
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        float v = bits_to_float(affine[tile * GROUPS + g], team_lane() < 16 ? scales_DT : biases_DT);
        uint i = team_lane();
        work[team_from() + SCALES_FROM + g * 8 + i / 4][i & 3u] = floatBitsToUint(v);
    }
}

FLOATS sums[TILES * BLOCKS]; // of a chunk

// What unit u of a chunk gives, into `result`.
void add_unit(uint u, uint unit, uint b, out FLOATS result) {
    uint from = (block + b) * UNITS + min(unit + u, UNITS - 1);
    INTEGERS products;
    multiply_bytes(team_from() + 2 * u, from * 96, products);
    uint group = team_from() + SCALES_FROM + (u >> GROUP_SHIFT) * 8;
    unit_floats(products, group, from * 8, unit + u < UNITS, result);
}

// Adds up the units of a chunk as lanes of a subgroup would: pairs, pairs of pairs, and so on.
void add_chunk(uint tile, uint unit) {
    UNROLL for (uint b = 0; b < BLOCKS; b++) {
        FLOATS one, two, four, eight;
        UNROLL for (uint u = 0; u < CHUNK; u++) {
            add_unit(u, unit, b, one);
            if ((u & 1) == 0) {
                two = one;
                continue;
            }
            floats_add(two, one);
            if ((u & 2) == 0) {
                four = two;
                continue;
            }
            floats_add(four, two);
            if ((u & 4) == 0) {
                eight = four;
            } else {
                floats_add(eight, four);
            }
        }
        sums[tile * BLOCKS + b] = eight;
    }
}

const uint RESULTS = TILES * BLOCKS * 256 / THREADS; // of a thread
float totals[RESULTS];

// Adds what the teams have of a round, from shared memory.
void add_round() {
    [[unroll]] for (uint r = 0; r < RESULTS; r++) {
        uint at = r * THREADS + gl_LocalInvocationIndex;
        [[unroll]] for (uint slice = 0; slice < TEAMS / SLICE_CHUNKS; slice++) {
            float part[8];
            [[unroll]] for (uint c = 0; c < SLICE_CHUNKS; c++) {
                uint chunk = slice * SLICE_CHUNKS + c; // zeros behind the last
                part[c] = uintBitsToFloat(work[chunk * TEAM_QUADS + at / 4][at & 3u]);
            }
            [[unroll]] for (uint reach = 1; reach < SLICE_CHUNKS; reach *= 2) {
                [[unroll]] for (uint c = 0; c + reach < SLICE_CHUNKS; c += 2 * reach) {
                    part[c] += part[c + reach];
                }
            }
            totals[r] += part[0];
        }
    }
}

void store(uint row_of_x, uint row, float v) {
    uint at = row_of_x * p.sets[matrix].n + row;
    if (PAIR || SETS == 1 || matrix == 0) {
        y0_store(p.sets[0].out_offset + at, v);
    } else if (SETS == 2 || matrix == 1) {
        y1_store(p.sets[1].out_offset + at, v);
    } else {
        y2_store(p.sets[2].out_offset + at, v);
    }
}

// The thread's result r: row i of the workgroup's of a matrix, and a row of x.
void finish_one(uint r, float v, float second) {
    uint at = r * THREADS + gl_LocalInvocationIndex;
    uint tile = at / (256 * BLOCKS);
    uint b = at / 256 % BLOCKS;
    uint row = first_row + tile * 16 + at % 16;
    uint row_of_x = (block + b) * 16 + at % 256 / 16;
    if (row >= p.sets[matrix].n || row_of_x >= p.x_rows) {
        return;
    }
    float factor = NORM != 0 ? factors[row_of_x] : 1.0;
    v = scaled_result(v, factor);
    if (PAIR) {
        v = silu_mul_result(v, scaled_result(second, factor));
    }
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        v += residual_load(p.residual_offset + row_of_x * p.sets[0].n + row);
    }
    store(row_of_x, row, v);
}

void main() {
    locate();
    [[unroll]] for (uint r = 0; r < RESULTS; r++) {
        totals[r] = 0.0;
    }
    UNROLL for (uint tile = 0; tile < TILES; tile++) {
        fetch(tile, team() * CHUNK);
    }
    [[dont_unroll]] for (uint round_ = 0; round_ < ROUNDS; round_++) {
        uint unit = (round_ * TEAMS + team()) * CHUNK;
        UNROLL for (uint tile = 0; tile < TILES; tile++) {
            unpack(tile);
            team_barrier();
            if (round_ + 1 < ROUNDS) {
                fetch(tile, unit + TEAMS * CHUNK);
            }
            add_chunk(tile, unit);
            team_barrier();
        }
        UNROLL for (uint i = 0; i < TILES * BLOCKS; i++) {
            floats_store(sums[i], team_from() + i * 64);
        }
        barrier();
        add_round();
        barrier();
    }
    [[unroll]] for (uint r = 0; r < RESULTS / SIDES; r++) {
        finish_one(r, totals[r], PAIR ? totals[RESULTS / 2 + r % max(1u, RESULTS / 2)] : 0.0);
    }
}
