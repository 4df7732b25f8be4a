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
// teams' sums: runs to slices of LANES units, and slices in the order of the columns. If
// that is not the whole row, there are several rounds. With SiLU, tiles of the two
// matrices alternate. Loading a matrix of bytes from memory takes a load for each byte,
// so x also goes through shared memory, chunk by chunk, for all teams with the same
// columns.
//
// Where there are few tiles, SPLITS workgroups share the columns of a tile, whole slices
// each, and projection_join adds up the sums of slices.
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
layout(constant_id = 12) const uint RUN = 1;        // a power of two, at most the chunks of a slice
layout(constant_id = 13) const uint SIDE = 16;      // rows of x: 16 or 8
layout(constant_id = 14) const uint NORM = 0;       // whether x is to be multiplied by 1/rms

layout(set = 0, binding = 0) readonly buffer RowsOfX { uvec4 rows_of_x[]; };
#define residual_DT y_DT
TENSOR_BLOCKS(13, residual, readonly)
TENSOR_BITS(residual)
layout(constant_id = 15) const uint X_BLOCKS = 1; // of SIDE rows of x of a workgroup: 1 or 2
layout(constant_id = 16) const uint x_DT = DT_FLOAT32;
QUADS_IN(14, x)
layout(constant_id = 17) const uint SPLITS = 1; // more only for one team to a slice, one matrix and no norm
layout(constant_id = 18) const uint BITS = 4;
layout(constant_id = 19) const uint SCALE_WORDS = 0; // whether the scales of a chunk are a word, and so are its biases
layout(set = 0, binding = 15) writeonly buffer SliceSums { float slice_sums[]; }; // by slice, row of x and row of w

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint UNITS = COLS / 32;
const uint CHUNK = 4;
const uint UNIT_QUADS = BITS / 4, ROW_QUADS = CHUNK * UNIT_QUADS; // of codes in memory
const uint SMALL_SHIFT = 5;
const uint CHUNKS = (UNITS + CHUNK - 1) / CHUNK;
const bool EVEN = UNITS % (CHUNK * RUN * ABREAST) == 0;
const uint SLICE_TEAMS = LANES / CHUNK / RUN;
const uint ROUNDS = (CHUNKS + ABREAST * RUN - 1) / (ABREAST * RUN);
const uint SPLIT_ROUNDS = (ROUNDS + SPLITS - 1) / SPLITS; // of a workgroup
const uint PLACES = SLOTS * ABREAST; // of teams with the same codes
const uint TEAMS = PLACES * X_BLOCKS;
const uint THREADS = TEAMS * 32;
const uint SIDES = PAIR ? 2 : 1;                  // matrices of a workgroup
const uint GROUP_TILES = SLOTS * TILES / SIDES;   // of each
const uint GROUPS = (CHUNK >> GROUP_SHIFT) == 0 ? 1 : CHUNK >> GROUP_SHIFT; // groups of scales in a chunk
const uint PITCH = 2 * CHUNK + 1;    // of a row of codes in shared memory, in quads
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

// Codes in flight, and the bits of the scale and the bias that the lane loads. They have separate registers: if some
// lanes loaded one and some the other, these loads would wait for each other.
const bool BY_UNITS = BITS % 4 != 0; // a lane loads whole units, not quads
const uint UNITS_HELD = CHUNK / 2 / X_BLOCKS, WORDS = ROW_QUADS / 2 / X_BLOCKS; // of a tile, each lane
uvec4 words[BY_UNITS ? 1 : TILES * WORDS];
uint unit_words[BY_UNITS ? TILES * UNITS_HELD * BITS : 1];
uint scale_bits[TILES * GROUPS], bias_bits[TILES * GROUPS];

// Which block of rows of x the team has; and its place, which teams with the same codes share.
uint x_block() { return X_BLOCKS == 1 ? 0 : team() % X_BLOCKS; }
uint place() { return team() / X_BLOCKS; }

// Which quad of a tile's codes a lane loads, or which unit.
uint tile_part(uint k) { return (k * X_BLOCKS + x_block()) * 32 + team_lane(); }

#define MATRIX(i, slot) \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block1 { uint data[]; } w##i##_1; \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block2 { uvec2 data[]; } w##i##_2; \
    layout(set = 0, binding = slot) readonly buffer w##i##_Block4 { uvec4 data[]; } w##i; \
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
        uint at = p.sets[i].w_offset + row * p.sets[i].w_stride + unit * BITS, group = unit >> GROUP_SHIFT; \
        uint bias = SMALL_FLOATS ? 0u : biases##i##_bits(p.sets[i].b_offset + row * p.sets[i].b_stride + group); \
        uint scale = scales##i##_bits(p.sets[i].s_offset + row * p.sets[i].s_stride + group); \
        return code_weight(CODE_AT(w##i, at, code * BITS), scale, bias); \
    } \
    void fetch##i(uint t, uint first, uint unit) { \
        [[unroll]] for (uint k = 0; k < (BY_UNITS ? UNITS_HELD : 0); k++) { \
            uint at = tile_part(k), to = (t * UNITS_HELD + k) * BITS; \
            uint row = min(first + at / CHUNK, p.sets[i].n - 1); \
            uint from = p.sets[i].w_offset + row * p.sets[i].w_stride + min(unit + at % CHUNK, UNITS - 1) * BITS; \
            [[unroll]] for (uint j = 0; j < BITS; j += BITS % 2 == 0 ? 2 : 1) { \
                if (BITS % 2 == 0) { \
                    uvec2 v = w##i##_2.data[(from + j) / 2]; \
                    unit_words[to + j] = v.x; \
                    unit_words[to + j + 1] = v.y; \
                } else { \
                    unit_words[to + j] = w##i##_1.data[from + j]; \
                } \
            } \
        } \
        [[unroll]] for (uint k = 0; k < (BY_UNITS ? 0 : WORDS); k++) { \
            uint at = tile_part(k); \
            uint row = min(first + at / ROW_QUADS, p.sets[i].n - 1); \
            uint from = (p.sets[i].w_offset + row * p.sets[i].w_stride) / 4; \
            words[t * WORDS + k] = w##i.data[from + min(unit * UNIT_QUADS + at % ROW_QUADS, UNITS * UNIT_QUADS - 1)]; \
        } \
        if (x_block() > 0) { \
            return; \
        } \
        [[unroll]] for (uint g = 0; g < GROUPS; g++) { \
            uint row = min(first + team_lane() % 16, p.sets[i].n - 1); \
            if (SCALE_WORDS != 0 && g > 0) { \
                continue; \
            } \
            uint number = min((unit >> GROUP_SHIFT) + g, (UNITS - 1) >> GROUP_SHIFT); \
            uint scale_at = p.sets[i].s_offset + row * p.sets[i].s_stride + number; \
            uint bias_at = p.sets[i].b_offset + row * p.sets[i].b_stride + number; \
            if (SCALE_WORDS != 0) { \
                scale_bits[t * GROUPS] = scales##i##_32.data[scale_at / GROUPS]; \
                bias_bits[t * GROUPS] = SMALL_FLOATS ? 0 : biases##i##_32.data[bias_at / GROUPS]; \
                continue; \
            } \
            scale_bits[t * GROUPS + g] = scales##i##_loose_bits(scale_at); \
            bias_bits[t * GROUPS + g] = SMALL_FLOATS ? 0 : biases##i##_loose_bits(bias_at); \
        } \
    }

MATRIX(0, 1)
MATRIX(1, 5)
MATRIX(2, 9)

uint matrix;    // the matrix of this workgroup
uint first_row; // of the workgroup
uint block;     // the workgroup's first block of rows of x
uint first_round, rounds; // of the workgroup

void locate() {
    uint blocks = (p.x_rows + SIDE * X_BLOCKS - 1) / (SIDE * X_BLOCKS), index = workgroup_index() / SPLITS;
    uint group = index / blocks;
    block = index % blocks * X_BLOCKS;
    first_round = workgroup_index() % SPLITS * SPLIT_ROUNDS;
    // SPLIT_ROUNDS, fewer in the last workgroup of a row, and at least one. The compiler must not be able to compute
    // it: it would unroll the loop over rounds, and exceed the instruction cache.
    const uint columns = 32 * CHUNK * ABREAST * RUN;
    rounds = min(SPLIT_ROUNDS, (p.x_stride + columns - 1) / columns - first_round);
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

// Starts the loads of a chunk of the team's tiles.
void fetch(uint unit) {
    [[unroll]] for (uint t = 0; t < TILES; t++) {
        uint tile = slot() * TILES + t, row = tile_row(tile);
        if (PAIR) {
            if (tile % 2 == 0) {
                fetch0(t, row, unit);
            } else {
                fetch1(t, row, unit);
            }
        } else if (SETS == 1 || matrix == 0) {
            fetch0(t, row, unit);
        } else if (SETS == 2 || matrix == 1) {
            fetch1(t, row, unit);
        } else {
            fetch2(t, row, unit);
        }
    }
}

// Where a tile is in shared memory: its codes and, after the last of them, the sums of its teams in their place.
uint tile_from(uint place, uint t) { return (place * TILES + t) * TILE_QUADS; }

// The bits of a group's scale or bias, and perhaps others above them.
#define group_bits(words, t, g) \
    (SCALE_WORDS == 0 ? words[(t) * GROUPS + (g)] \
     : SMALL_FLOATS ? (words[(t) * GROUPS] >> (8 * (g))) & 255u \
                    : words[(t) * GROUPS] >> (16 * (g)))

void unpack_unit(uint to, uint from) {
    [[unroll]] for (uint i = 0; i < 2; i++) {
        uvec4 v;
        [[unroll]] for (uint c = 0; c < 4; c++) {
            v[c] = FOUR_CODES(unit_words, from, 4 * i + c);
        }
        work[to + i] = v;
    }
}

// Stores the codes in shared memory, as a byte each, and the scales and biases.
void unpack() {
    [[unroll]] for (uint t = 0; t < TILES; t++) {
        [[unroll]] for (uint k = 0; k < (BY_UNITS ? UNITS_HELD : 0); k++) {
            uint at = tile_part(k), to = tile_from(place(), t) + at / CHUNK * PITCH + at % CHUNK * 2;
            unpack_unit(to, (t * UNITS_HELD + k) * BITS);
        }
        [[unroll]] for (uint k = 0; k < (BY_UNITS ? 0 : WORDS); k++) {
            uint at = tile_part(k);
            uint to = tile_from(place(), t) + at / ROW_QUADS * PITCH + at % ROW_QUADS * (8 / BITS);
            uvec4 v = words[t * WORDS + k];
            if (BITS == 8) {
                work[to] = byte_bytes(v);
                continue;
            }
            work[to] = nibble_bytes(v.xy);
            work[to + 1] = nibble_bytes(v.zw);
        }
        if (x_block() > 0) {
            continue;
        }
        [[unroll]] for (uint g = 0; g < GROUPS; g++) {
            vec2 by = byte_factors(loaded_scale(group_bits(scale_bits, t, g)), loaded_bias(group_bits(bias_bits, t, g)));
            uint i = team_lane();
            work[tile_from(place(), t) + SCALES_FROM + g * 8 + i / 4][i & 3u] = floatBitsToUint(i < 16 ? by.x : by.y);
        }
    }
}

#include "coopmat_x.glsl"
#include "byte_tile_stores.glsl"
#include "coopmat_results.glsl"

// Sums that are still to be added to the next one of the same size: of a unit, of two, of a chunk, of two chunks and
// so on.
FLOATS waiting_unit[TILES], waiting_pair[TILES];
FLOATS waiting_run[TILES * 3];
FLOATS sums[TILES];

// Adds up the units of a chunk as lanes of a subgroup would: pairs, and then the pairs.
void add_chunk(uint unit, uint x) {
    UNROLL for (uint u = 0; u < CHUNK; u++) {
        hold_unit(0, x + 2 * u, x + X_MULTIPLES(SIDE) + u * SIDE / 4);
        [[unroll]] for (uint t = 0; t < TILES; t++) {
            INTEGERS high, rest;
            multiply_bytes(tile_from(place(), t) + 2 * u, 0, high, rest);
            if (u % (1 << GROUP_SHIFT) == 0) {
                hold_scales(t, tile_from(place(), t) + SCALES_FROM + (u >> GROUP_SHIFT) * 8);
            }
            FLOATS result;
            unit_floats(high, rest, 0, t, unit + u < UNITS, result);
            if (u % 2 == 0) {
                waiting_unit[t] = result;
                continue;
            }
            floats_add(result, waiting_unit[t]);
            if (u % 4 == 1) {
                waiting_pair[t] = result;
                continue;
            }
            floats_add(result, waiting_pair[t]);
            sums[t] = result;
        }
    }
}

// Adds up the chunks of a run in the same way.
void add_to_run(uint number) {
    [[unroll]] for (uint t = 0; t < TILES; t++) {
        bool done = false;
        [[unroll]] for (uint level = 0; 1 << level < RUN; level++) {
            if (!done) {
                if ((number >> level) % 2 == 0) {
                    waiting_run[t * 3 + level] = sums[t];
                    done = true;
                } else {
                    floats_add(sums[t], waiting_run[t * 3 + level]);
                }
            }
        }
    }
}

// Stores the team's sums of a round. If it has whole rows, it keeps their sums itself.
FLOATS sums_so_far[TILES];

void end_round(uint round_) {
    bool stores = ABREAST > 1 || SPLITS > 1 || round_ + 1 == ROUNDS;
    if (X_BLOCKS > 1 && stores) {
        barrier(); // other teams may still need the codes
    }
    [[unroll]] for (uint t = 0; t < TILES; t++) {
        if (ABREAST == 1 && SPLITS == 1) {
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
    if (SPLITS > 1) {
        store_slice(round_);
    } else {
        collect(ABREAST > 1 ? round_ : 0, round_ + 1 == ROUNDS);
    }
}

void main() {
    locate();
    fetch(first_unit(first_round));
    fetch_x(first_unit(first_round));
    if (NORM != 0) {
        find_factors();
    }
    [[dont_unroll]] for (uint step_ = 0; step_ < rounds * RUN; step_++) {
        uint round_ = first_round + step_ / RUN, number = step_ % RUN;
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
        add_chunk(unit, x_from(x_block()));
        add_to_run(number);
        team_barrier();
        if (number + 1 == RUN) {
            end_round(round_);
        }
    }
}
