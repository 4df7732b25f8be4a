// projection_coopmat.comp for codes of 4 bits and products that give each compute unit little to do: one
// dispatch instead of two, with x in registers. The results have the same bits.
//
// A workgroup handles SIDE rows of x. Its teams, which are subgroups of 32 lanes, share
// the columns: each has CHUNK units of them, makes digits of its part of x, and keeps
// them in registers. Then all go through tiles of 16 rows of w together, TILES at a
// time, while the codes of the next ones are loaded. The threads add up the teams' sums
// of a tile as the lanes of projection.comp do: into chunks, parts and slices of LANES
// units, and the slices in the order of the columns. If the teams do not have the whole
// row at once, there are several rounds. With SiLU, tiles of the two matrices alternate. With OVERLAP,
// the first codes are loaded before x is there.
//
// Without cooperative matrices (the last variants), each lane of a team computes
// some elements of a matrix by dot products.
//
// variants: narrow_subgroup_khr8 narrow_subgroup_dot8
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in; // TEAMS * 32

#include "quads.glsl"
#include "math.glsl"
#include "projection_sums.glsl"
#extension GL_KHR_shader_subgroup_vote : require

layout(constant_id = 1) const uint y_DT = DT_FLOAT32; // the residual's too
layout(constant_id = 2) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 3) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 4) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 5) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 6) const uint SETS = 1;        // matrices
layout(constant_id = 7) const uint EPILOGUE = 0;    // PROJECTION_*, but no arg_max
layout(constant_id = 8) const uint LANES = 32;      // units of a slice
layout(constant_id = 9) const uint TEAMS = 8;       // as many as slices take, or a multiple of that
layout(constant_id = 10) const uint CHUNK = 4;      // units of a team: 2 or 4, at least a span
layout(constant_id = 11) const uint TILES = 1;      // 1 or 2; 2 with SiLU
layout(constant_id = 12) const uint SIDE = 8;       // rows of x: 16 or 8
layout(constant_id = 13) const uint NORM = 0;       // 1: without gain, 2: with
layout(constant_id = 14) const uint TURNS = 1;      // the most of a workgroup, if there are several rounds

TENSOR_IN(0, x, 15)
QUADS_IN(0, x)
TENSOR_IN(14, gain, 16)
QUADS_IN(14, gain)
#define residual_DT y_DT
TENSOR_BLOCKS(13, residual, readonly)
TENSOR_BITS(residual)

layout(constant_id = 17) const uint SPAN = 1;       // units whose products are added up as integers: unit_integers.glsl
layout(constant_id = 18) const uint ONE_MATRIX = 0; // 1: each matrix's bindings hold all matrices
layout(constant_id = 19) const uint OVERLAP = 0;    // 1 << a binding
#include "awaited_x.glsl"
layout(set = 0, binding = 13) volatile coherent readonly buffer AwaitedResidual { uint data[]; } awaited_residual;
const bool AWAITS_RESIDUAL = OVERLAPS(13);

layout(push_constant) uniform Push { ProjectionHeldParams p; };

// Drivers do not unroll loops with as much in them as those over units and tiles have, and arrays that are indexed in
// loops are not in registers. So these are written out, and such arrays have constant sizes.
#define EACH_UNIT(do_unit) \
    do_unit(0); \
    do_unit(1); \
    if (CHUNK > 2) { \
        do_unit(2); \
        do_unit(3); \
    }
#define EACH_TILE(do_tile) \
    do_tile(0); \
    if (TILES > 1) { \
        do_tile(1); \
    }
const uint MOST_CHUNK = 4, MOST_TILES = 2, MOST_GROUPS = 4, MOST_PASSES = 2;

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint UNITS = COLS / 32;
const uint ROUND_UNITS = CHUNK * TEAMS;
const uint ROUNDS = (UNITS + ROUND_UNITS - 1) / ROUND_UNITS;
const bool EVEN = UNITS % ROUND_UNITS == 0;
const uint SLICE_TEAMS = LANES / CHUNK;
const uint THREADS = TEAMS * 32;
const uint SIDES = PAIR ? 2 : 1;                                            // matrices of a turn
const uint TURN_ROWS = TILES / SIDES * 16;                                  // of each
const uint GROUPS = (CHUNK >> GROUP_SHIFT) == 0 ? 1 : CHUNK >> GROUP_SHIFT; // groups of scales in a chunk
const uint TILE = 16 * SIDE;                                                // elements

// Shared memory, in quads. Each team has two units of codes at a time, rows padded by one quad; then scales and biases
// by group, 16 and 16; then its results of the tiles, by rows of x.
const uint PITCH = 5;
const uint SCALES_FROM = 16 * PITCH;
const uint OPERANDS = SCALES_FROM + GROUPS * 8;
// The layout of a unit of x: rows of digits, padded by one quad; the last one of a span also has multiples, sums and
// what sums of products begin with.
const uint HELD_PITCH = 3;
const uint HELD_MULTIPLES = 3 * SIDE * HELD_PITCH;
const uint UNIT_SUMS = SIDE / 4;
const uint HELD_SUMS = HELD_MULTIPLES + UNIT_SUMS;
const uint HELD_STARTS = HELD_SUMS + UNIT_SUMS;
const uint HELD_UNIT = HELD_STARTS + UNIT_SUMS;
const uint SUM_PITCH = TILES == 1 ? 5 : 4;
#ifdef COOPMAT_KHR
// Units of x pass through the place of the codes on their way to registers.
const uint X_UNITS = 0;
const uint TEAM_OPERANDS = OPERANDS > HELD_UNIT ? OPERANDS : HELD_UNIT;
#else
const uint X_UNITS = CHUNK;
const uint TEAM_OPERANDS = OPERANDS;
#endif
const uint SUMS_FROM = TEAM_OPERANDS + X_UNITS * HELD_UNIT;
const uint TEAM_QUADS = SUMS_FROM + TILES * SIDE * SUM_PITCH;

shared uvec4 work[TEAMS * TEAM_QUADS];
shared float totals[ROUNDS > 1 ? TURNS * TILES * TILE : 1]; // of earlier rounds, by turns
shared float factors[SIDE];                                 // 1/rms of the rows of the block
#ifndef COOPMAT_KHR
shared float squares_so_far[NORM != 0 ? SIDE * LANES : 1];
#endif

const uint HELD_UNITS = MOST_CHUNK, HELD_TILES = 1;

const uint BITS = 4, SMALL_SHIFT = 5;

#include "code_bytes.glsl"
#include "unit_digits.glsl"
#include "byte_tiles.glsl"

// Codes in flight, and the bits of the scale and the bias that the lane loads. They have separate registers: if some
// lanes loaded one and some the other, these loads would wait for each other.
uvec4 words[MOST_TILES * MOST_CHUNK / 2];
uint scale_bits[MOST_TILES * MOST_GROUPS], bias_bits[MOST_TILES * MOST_GROUPS];

#define MATRIX(i, slot) \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block { uvec4 data[]; } w##i; \
    const uint scales##i##_DT = scales_DT; \
    const uint biases##i##_DT = biases_DT; \
    const uint y##i##_DT = y_DT; \
    TENSOR_BLOCKS(slot + 1, scales##i, readonly) \
    TENSOR_BITS(scales##i) \
    TENSOR_LOOSE_BITS(slot + 1, scales##i) \
    TENSOR_BLOCKS(slot + 2, biases##i, readonly) \
    TENSOR_BITS(biases##i) \
    TENSOR_LOOSE_BITS(slot + 2, biases##i) \
    TENSOR_BLOCKS(slot + 3, y##i, ) \
    TENSOR_STORES(y##i) \
    float weight##i(uint row, uint unit, uint code) { \
        uint bit = code * 4, group = unit >> GROUP_SHIFT; \
        uint word = w##i.data[(p.sets[i].w_offset + row * p.sets[i].w_stride) / 4 + unit][bit / 32 % 4]; \
        uint bias = SMALL_FLOATS ? 0u : biases##i##_bits(p.sets[i].b_offset + row * p.sets[i].b_stride + group); \
        return code_weight((word >> (bit & 31u)) & 15u, scales##i##_bits(p.sets[i].s_offset + row * p.sets[i].s_stride + group), bias); \
    } \
    void fetch##i(uint set, uint t, uint first, uint unit) { \
        uint code_row = min(first + team_lane() / 2, p.sets[set].n - 1); \
        uint from = (p.sets[set].w_offset + code_row * p.sets[set].w_stride) / 4; \
        [[unroll]] for (uint k = 0; k < CHUNK / 2; k++) { \
            words[t * (MOST_CHUNK / 2) + k] = w##i.data[from + min(unit + 2 * k + team_lane() % 2, UNITS - 1)]; \
        } \
        uint row = min(first + team_lane() % 16, p.sets[set].n - 1); \
        [[unroll]] for (uint g = 0; g < GROUPS; g++) { \
            uint number = min((unit >> GROUP_SHIFT) + g, (UNITS - 1) >> GROUP_SHIFT); \
            scale_bits[t * MOST_GROUPS + g] = scales##i##_loose_bits(p.sets[set].s_offset + row * p.sets[set].s_stride + number); \
            bias_bits[t * MOST_GROUPS + g] = SMALL_FLOATS ? 0 : biases##i##_loose_bits(p.sets[set].b_offset + row * p.sets[set].b_stride + number); \
        } \
    }

MATRIX(0, 1)
MATRIX(1, 5)
MATRIX(2, 9)

uint block; // of rows of x

// The matrix of a turn, the first if there are two, and its row.
uint matrix_of(uint turn) { return PAIR ? 0 : uint(SETS > 1 && turn >= p.starts[0]) + uint(SETS > 2 && turn >= p.starts[1]); }
uint row_of(uint turn, uint matrix) { return (turn - (matrix == 0 ? 0 : p.starts[matrix - 1])) * TURN_ROWS; }

// Starts the loads of a tile of a turn.
void fetch(uint turn, uint t, uint unit) {
    uint matrix = matrix_of(turn), row = row_of(turn, matrix) + t / SIDES * 16;
    if (ONE_MATRIX != 0) {
        fetch0(PAIR ? t : matrix, t, row, unit);
    } else if (PAIR ? t == 0 : SETS == 1 || matrix == 0) {
        fetch0(0, t, row, unit);
    } else if (PAIR || SETS == 2 || matrix == 1) {
        fetch1(1, t, row, unit);
    } else {
        fetch2(2, t, row, unit);
    }
}

uint team_from(uint team) { return team * TEAM_QUADS; }

// Where a team's results of a tile are.
uint sums_from(uint team, uint t) { return team_from(team) + SUMS_FROM + t * SIDE * SUM_PITCH; }

// Stores two units of codes in shared memory, as a byte each.
void unpack(uint t, uint k) {
    uint to = team_from(team()) + team_lane() / 2 * PITCH + team_lane() % 2 * 2;
    uvec4 v = words[t * (MOST_CHUNK / 2) + k];
    work[to] = nibble_bytes(v.xy);
    work[to + 1] = nibble_bytes(v.zw);
}

void put_scales(uint t) {
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        vec2 by = byte_factors(loaded_scale(scale_bits[t * MOST_GROUPS + g]), loaded_bias(bias_bits[t * MOST_GROUPS + g]));
        uint i = team_lane();
        work[team_from(team()) + SCALES_FROM + g * 8 + i / 4][i & 3u] = floatBitsToUint(i < 16 ? by.x : by.y);
    }
}

#include "held_x.glsl"
#include "byte_tile_stores.glsl"
#include "held_results.glsl"

#include "chunk_sums.glsl"

// Adds the products of a unit, two of which have their codes in shared memory, to those of the units before.
void add_unit(uint u, uint unit, inout FLOATS result) {
    if (u % SPAN == 0) {
        begin_span(0);
    }
    multiply_bytes(team_from(team()) + u % 2 * 2, u, 0);
    if ((u + 1) % SPAN == 0) {
        if (begins_group(u)) {
            hold_scales(0, team_from(team()) + SCALES_FROM + (u >> GROUP_SHIFT) * 8);
        }
        span_floats(u, 0, unit + u < UNITS, result);
        add_to_chunk(u, 0, result);
    }
}

// The same of two units, the first of which is u.
void add_pair(uint u, uint unit, inout FLOATS result) {
    team_barrier();
    add_unit(u, unit, result);
    add_unit(u + 1, unit, result);
    team_barrier();
}

// The team's sums of a tile. Once the codes are in shared memory, those of the same tile of the next turn are loaded.
void add_tile(uint turn, uint next, uint t, uint unit) {
    FLOATS sum;
    put_scales(t);
    unpack(t, 0);
    if (CHUNK > 2) {
        add_pair(0, unit, sum);
        unpack(t, 1);
    }
    if (next != turn) {
        fetch(next, t, unit);
    }
    add_pair(CHUNK - 2, unit, sum);
    floats_store(sum, sums_from(team(), t));
}

void main() {
    uint blocks = (p.x_rows + SIDE - 1) / SIDE;
    block = workgroup_index() % blocks;
    uint first = workgroup_index() / blocks, last = SETS - (PAIR ? 2 : 1);
    uint turns = (last == 0 ? 0 : p.starts[last - 1]) + (p.sets[last].n + TURN_ROWS - 1) / TURN_ROWS;
    if (first >= min(turns, p.groups)) {
        return;
    }
    [[dont_unroll]] for (uint round_ = 0; round_ < ROUNDS; round_++) {
        uint unit = (round_ * TEAMS + team()) * CHUNK;
#define FETCH(t) fetch(first, t, unit)
        EACH_TILE(FETCH)
        hold_x(unit, round_);
        [[dont_unroll]] for (uint turn = first, number = 0; turn < turns; turn += p.groups, number++) {
            uint next = turn + p.groups < turns ? turn + p.groups : turn;
            fetch_residual(turn);
#define ADD(t) add_tile(turn, next, t, unit)
            EACH_TILE(ADD)
            barrier();
            collect(turn, number, round_);
            barrier();
        }
    }
}
