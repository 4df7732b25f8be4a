// projection.comp for several rows of x and codes that fit into bytes (code_bytes.glsl):
// the same sums of the same integers, computed by matrices of bytes. A unit of 32 codes
// of 16 rows of w and one of SIDE rows of x give one product of such matrices for each
// digit of x (projection_rows.comp). The integers are exact, and the float sums that
// follow are those of projection.comp, so a row of x gives the same bits in either
// kernel, whatever other rows there are.
//
// A tile is 16 rows of w by SIDE rows of x. A team, which is a subgroup of 32 lanes, has
// TILES of them and goes through RUN chunks of CHUNK units of their columns, adding them
// up as the lanes of projection.comp do; codes of the next chunk are loaded meanwhile.
// X_BLOCKS teams have the same rows of w and share their codes. ABREAST such groups share
// the columns of a tile, SLOTS times as many are a workgroup. Then the threads add up the
// teams' sums: runs to parts, parts to slices of LANES units, slices in their order. If
// that is not the whole row, there are several rounds. With SiLU, tiles of the two
// matrices alternate. Loading a matrix of bytes from memory takes a load for each byte,
// so x also goes through shared memory, chunk by chunk, for all teams with the same
// columns.
//
// Without cooperative matrices (the last variants), each lane of a team computes
// some elements of a matrix by dot products.
//
// variants: narrow_subgroup_khr8 narrow_dot8
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in; // SLOTS * ABREAST * X_BLOCKS * 32

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
layout(constant_id = 9) const uint ABREAST = 8;     // as many as slices take, or a multiple of that
layout(constant_id = 10) const uint SLOTS = 1;      // even with SiLU and one tile
layout(constant_id = 11) const uint TILES = 1;      // of a team: 1 or 2
layout(constant_id = 12) const uint RUN = 1;        // one, or all chunks of a part (projection_sums.glsl)
layout(constant_id = 13) const uint SIDE = 16;      // rows of x: 16 or 8
layout(constant_id = 14) const uint NORM = 0;       // whether x is to be multiplied by 1/rms

layout(set = 0, binding = 0) readonly buffer RowsOfX { uvec4 rows_of_x[]; };
#define residual_DT y_DT
TENSOR_BLOCKS(13, residual, readonly)
TENSOR_BITS(residual)
layout(constant_id = 15) const uint X_BLOCKS = 1; // of SIDE rows of x of a workgroup: 1 or 2
layout(constant_id = 16) const uint x_DT = DT_FLOAT32;
QUADS_IN(14, x)
layout(constant_id = 17) const uint BITS = 4;
layout(constant_id = 18) const uint SCALE_WORDS = 0; // words that the scales of a chunk fill, and its biases; 0: not whole ones
layout(constant_id = 19) const uint UNIT_SCALES = 1; // 2: each half of a unit has its own, and there are no biases
layout(constant_id = 20) const uint SPAN = 1;        // units whose products are added up as integers: unit_integers.glsl

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint UNITS = COLS / 32;
const uint CHUNK = 4;
const uint UNIT_QUADS = BITS / 4, ROW_QUADS = CHUNK * UNIT_QUADS; // of codes in memory
const uint SMALL_SHIFT = UNIT_SCALES == 2 ? 4 : 5;
const uint CHUNKS = (UNITS + CHUNK - 1) / CHUNK;
const bool EVEN = UNITS % (CHUNK * RUN * ABREAST) == 0;
const uint SLICE_TEAMS = LANES / CHUNK / RUN;
const uint PART_TEAMS = (LANES < PART_UNITS ? LANES : PART_UNITS) / CHUNK / RUN;
const uint ROUNDS = (CHUNKS + ABREAST * RUN - 1) / (ABREAST * RUN);
const uint PLACES = SLOTS * ABREAST; // of teams with the same codes
const uint TEAMS = PLACES * X_BLOCKS;
const uint THREADS = TEAMS * 32;
const uint SIDES = PAIR ? 2 : 1;                  // matrices of a workgroup
const uint GROUP_TILES = SLOTS * TILES / SIDES;   // of each
const uint GROUPS = (CHUNK >> GROUP_SHIFT) == 0 ? 1 : (CHUNK >> GROUP_SHIFT) * UNIT_SCALES; // of scales in a chunk
// What a unit of a row takes in shared memory, in quads. Between halves with their own scales are zeros, so that each of
// them and the zeros beside it are like a unit, with zeros in place of the other half.
const uint UNIT_PITCH = UNIT_SCALES + 1;
const uint PITCH = UNIT_PITCH * CHUNK + 1;
const uint LAST_GROUP = ((UNITS - 1) >> GROUP_SHIFT) * UNIT_SCALES + UNIT_SCALES - 1; // of a row
const uint WORD_SCALES = SCALE_WORDS == 0 ? 1 : GROUPS / SCALE_WORDS;
const uint SCALES_FROM = 16 * PITCH; // then scales and biases, by group: 16 and 16
const uint SUM_PITCH = 5;            // of a team's results for a row of x, in quads: one more than needed
const uint SUMS = SIDE * SUM_PITCH;
const uint OPERANDS = SCALES_FROM + GROUPS * 8;
const uint TILE_QUADS = OPERANDS > X_BLOCKS * SUMS ? OPERANDS : X_BLOCKS * SUMS;
const uint TILE = 16 * SIDE; // elements

// What a chunk of a block of x takes in shared memory: all but the sums of squares.
const uint HELD_PITCH = X_PITCH, UNIT_SUMS = X_SUMS(SIDE) - X_MULTIPLES(SIDE);
const uint X_QUADS = X_SQUARES(SIDE);
const uint X_FROM = PLACES * TILES * TILE_QUADS;

shared uvec4 work[X_FROM + ABREAST * X_BLOCKS * X_QUADS];

const uint HELD_UNITS = 1, HELD_TILES = TILES;

#include "code_bytes.glsl"
#include "byte_tiles.glsl"

// Which block of rows of x the team has; and its place, which teams with the same codes share.
uint x_block() { return X_BLOCKS == 1 ? 0 : team() % X_BLOCKS; }
uint place() { return team() / X_BLOCKS; }

uint matrix;    // the matrix of this workgroup
uint first_row; // of the workgroup
uint block;     // the workgroup's first block of rows of x
uint rounds;    // ROUNDS

void locate() {
    uint blocks = (p.x_rows + SIDE * X_BLOCKS - 1) / (SIDE * X_BLOCKS), index = workgroup_index();
    uint group = index / blocks;
    block = index % blocks * X_BLOCKS;
    // The compiler must not be able to compute `rounds`: it would unroll the loop, and exceed the instruction cache.
    const uint columns = 32 * CHUNK * ABREAST * RUN;
    rounds = (p.x_stride + columns - 1) / columns;
    matrix = 0;
    if (!PAIR) {
        matrix = uint(SETS > 1 && group >= p.starts[0]) + uint(SETS > 2 && group >= p.starts[1]);
        group -= matrix == 0 ? 0 : p.starts[matrix - 1];
    }
    first_row = group * GROUP_TILES * 16;
}

uint slot() { return place() / ABREAST; }

// The first row of a tile of the workgroup, among those of its matrix.
uint tile_row(uint tile) { return first_row + tile / SIDES * 16; }

// The team's first unit of a round.
uint first_unit(uint round_) { return (round_ * ABREAST + place() % ABREAST) * RUN * CHUNK; }

#include "coopmat_codes.glsl"
#include "coopmat_x.glsl"
const uint OVERLAP = 0; // it waits for nothing
vec4 x_in(uint at) { return x_quad(at); }
#include "byte_tile_stores.glsl"
#include "coopmat_results.glsl"

#include "chunk_sums.glsl"

FLOATS sums[TILES]; // of a run so far

// Where the scales and biases of a group are.
uint group_from(uint t, uint group) { return tile_from(place(), t) + SCALES_FROM + group * 8; }

// The contribution of the span that ends with unit u of a chunk.
void span_result(uint u, uint t, bool exists, out FLOATS result) {
    if (begins_group(u)) {
        hold_scales(t, group_from(t, (u >> GROUP_SHIFT) * UNIT_SCALES));
    }
    span_floats(0, t, exists, result);
    if (UNIT_SCALES == 2) {
        begin_span(t);
        multiply_bytes(tile_from(place(), t) + UNIT_PITCH * u + 1, 0, t);
        hold_scales(t, group_from(t, 2 * u + 1));
        add_half(0, t, exists, result);
    }
}

// Adds the products of a chunk to the sums, or begins with them.
void add_chunk(uint unit, uint x, bool first) {
    FLOATS results[TILES];
    UNROLL for (uint u = 0; u < CHUNK; u++) {
        hold_unit(0, x + 2 * u);
        if ((u + 1) % SPAN == 0) {
            hold_span(0, x + X_MULTIPLES(SIDE) + u * SIDE / 4);
        }
        [[unroll]] for (uint t = 0; t < TILES; t++) {
            if (u % SPAN == 0) {
                begin_span(t);
            }
            multiply_bytes(tile_from(place(), t) + UNIT_PITCH * u, 0, t);
            if ((u + 1) % SPAN == 0) {
                span_result(u, t, unit + u < UNITS, results[t]);
                add_to_chunk(u, t, results[t]);
            }
        }
    }
    [[unroll]] for (uint t = 0; t < TILES; t++) {
        if (!first) {
            floats_add(results[t], sums[t]);
        }
        sums[t] = results[t];
    }
}

// Stores the team's sums of a round. If it has whole rows, it keeps their sums itself.
FLOATS sums_so_far[TILES];

void end_round(uint round_) {
    bool stores = ABREAST > 1 || round_ + 1 == ROUNDS;
    if (X_BLOCKS > 1 && stores) {
        barrier(); // other teams may still need the codes
    }
    [[unroll]] for (uint t = 0; t < TILES; t++) {
        if (ABREAST == 1) {
            if (round_ == 0) {
                floats_clear(sums_so_far[t]);
            }
            floats_add(sums_so_far[t], sums[t]);
            sums[t] = sums_so_far[t];
        }
        if (stores) {
            floats_store(sums[t], sums_from(place(), t, x_block()));
        }
    }
    if (!stores) {
        return;
    }
    barrier();
    collect(ABREAST > 1 ? round_ : 0, round_ + 1 == ROUNDS);
}

void main() {
    locate();
    fetch(first_unit(0));
    fetch_x(first_unit(0));
    if (NORM != 0) {
        find_factors();
    }
    [[dont_unroll]] for (uint step_ = 0; step_ < rounds * RUN; step_++) {
        uint round_ = step_ / RUN, number = step_ % RUN;
        uint unit = first_unit(round_) + number * CHUNK;
        if (step_ > 0) {
            barrier();
        }
        put_x();
        unpack();
        barrier();
        if (step_ + 1 < rounds * RUN) {
            uint next = number + 1 < RUN ? unit + CHUNK : first_unit(round_ + 1);
            fetch(next);
            fetch_x(next);
        }
        add_chunk(unit, x_from(x_block()), number == 0);
        team_barrier();
        if (number + 1 == RUN) {
            end_round(round_);
        }
    }
}
