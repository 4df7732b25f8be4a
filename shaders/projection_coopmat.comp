// projection.comp for several rows of x: the same sums, of the same integers, by
// matrices of bytes. A unit of 32 codes of 16 rows of w and one of 16 rows of x make
// one product of such matrices for each digit of x (projection_rows.comp); the
// integers come out exact, so what follows are the float sums of projection.comp,
// and a row of x gives the same bits in either kernel, whatever is beside it.
//
// Tiles are 16 rows of w by SIDE rows of x. Of SLOTS tiles at a time each is made by
// ABREAST teams, subgroups of 32 lanes, which have a chunk of CHUNK units each and
// add them up as the lanes of projection.comp do; then threads add up what the teams
// have: chunks to slices of LANES units, slices in the order of the columns. A round
// is ABREAST chunks: in it, a team keeps what it needs of x in registers and goes
// through TURNS tiles; codes of the next one are under way meanwhile. Where several
// rounds make a row, the sums wait in shared memory. With SiLU, tiles of the two
// matrices alternate.
//
// Without cooperative matrices (the last variants), each lane of a team has some
// elements of a matrix and makes them by dot products.
//
// variants: narrow_khr8 narrow_dot8
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in; // SLOTS * ABREAST * 32

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
layout(constant_id = 9) const uint ABREAST = 8;  // a multiple of the chunks of a slice
layout(constant_id = 10) const uint SLOTS = 1;   // 1 or even with SiLU
layout(constant_id = 11) const uint TURNS = 1;   // even with SiLU and one slot
layout(constant_id = 12) const uint SIDE = 16;   // rows of x: 16 or 8
layout(constant_id = 13) const uint NORM = 0;    // whether x is to be multiplied by 1/rms
layout(constant_id = 14) const uint HELD = 1;    // whether x stays in registers from tile to tile

layout(set = 0, binding = 0) readonly buffer Digits { uvec4 digits[]; };
layout(set = 0, binding = 1) readonly buffer Units { vec4 units[]; };
layout(set = 0, binding = 2) readonly buffer Factors { float factors[]; };
#define residual_DT y_DT
TENSOR_BLOCKS(15, residual, readonly)
TENSOR_BITS(residual)

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = EPILOGUE == PROJECTION_SILU_MUL;
const uint UNITS = COLS / 32;
const uint CHUNK = 4;
const uint CHUNKS = (UNITS + CHUNK - 1) / CHUNK;
const uint SLICE_CHUNKS = LANES / CHUNK;
const uint ROUNDS = (CHUNKS + ABREAST - 1) / ABREAST;
const uint TEAMS = SLOTS * ABREAST;
const uint THREADS = TEAMS * 32;
const uint SIDES = PAIR ? 2 : 1;                  // matrices of a workgroup
const uint GROUP_ROWS = SLOTS * TURNS / SIDES * 16; // of each
const uint GROUPS = (CHUNK >> GROUP_SHIFT) == 0 ? 1 : CHUNK >> GROUP_SHIFT; // of scales that a chunk meets
const uint PITCH = 2 * CHUNK + 1;     // of a row of codes in shared memory, in quads
const uint SCALES_FROM = 16 * PITCH;  // then scales and biases, by group: 16 and 16
const uint SUM_PITCH = 5;             // of what a team gives for a row of x, in quads: one more than it takes
const uint SUMS = SIDE * SUM_PITCH;
const uint OPERANDS = SCALES_FROM + GROUPS * 8;
const uint TEAM_QUADS = OPERANDS > SUMS ? OPERANDS : SUMS;
const uint TILE = 16 * SIDE; // elements

shared uvec4 work[TEAMS * TEAM_QUADS];

#include "byte_tiles.glsl"

// Codes that are under way, and the bits of the scale and the bias that the lane brings. They have registers of their
// own, since loads of which some lanes take one and some the other wait for each other.
uvec4 words[CHUNK / 2];
uint scale_bits[GROUPS], bias_bits[GROUPS];

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
    void fetch##i(uint first, uint unit) { \
        [[unroll]] for (uint k = 0; k < CHUNK / 2; k++) { \
            uint at = k * 32 + team_lane(); \
            uint row = min(first + at / CHUNK, p.sets[i].n - 1); \
            uint from = (p.sets[i].w_offset + row * p.sets[i].w_stride) / 4; \
            words[k] = w##i.data[from + min(unit + at % CHUNK, UNITS - 1)]; \
        } \
        [[unroll]] for (uint g = 0; g < GROUPS; g++) { \
            uint row = min(first + team_lane() % 16, p.sets[i].n - 1); \
            uint number = min((unit >> GROUP_SHIFT) + g, (UNITS - 1) >> GROUP_SHIFT); \
            scale_bits[g] = scales##i##_bits(p.sets[i].s_offset + row * p.sets[i].s_stride + number); \
            bias_bits[g] = biases##i##_bits(p.sets[i].b_offset + row * p.sets[i].b_stride + number); \
        } \
    }

MATRIX(0, 3)
MATRIX(1, 7)
MATRIX(2, 11)

uint matrix;    // that this workgroup works on
uint first_row; // of the workgroup
uint block;     // of rows of x

void locate() {
    uint blocks = (p.x_rows + SIDE - 1) / SIDE;
    uint group = workgroup_index() / blocks;
    block = workgroup_index() % blocks;
    matrix = 0;
    if (!PAIR) {
        matrix = uint(SETS > 1 && group >= p.starts[0]) + uint(SETS > 2 && group >= p.starts[1]);
        group -= matrix == 0 ? 0 : p.starts[matrix - 1];
    }
    first_row = group * GROUP_ROWS;
}

uint slot() { return team() / ABREAST; }

// The first row of a tile, among those of its matrix: the tile of a slot in a turn.
uint tile_row(uint turn, uint at_slot) { return first_row + (turn * SLOTS + at_slot) / SIDES * 16; }

// The team's first unit of a round.
uint first_unit(uint round_) { return (round_ * ABREAST + team() % ABREAST) * CHUNK; }

// Starts the loads of the team's chunk.
void fetch(uint round_, uint turn) {
    uint row = tile_row(turn, slot()), unit = first_unit(round_);
    if (PAIR) {
        if ((turn * SLOTS + slot()) % 2 == 0) {
            fetch0(row, unit);
        } else {
            fetch1(row, unit);
        }
    } else if (SETS == 1 || matrix == 0) {
        fetch0(row, unit);
    } else if (SETS == 2 || matrix == 1) {
        fetch1(row, unit);
    } else {
        fetch2(row, unit);
    }
}

uint team_from() { return team() * TEAM_QUADS; }

// Brings the codes into shared memory, a byte each, and scales and biases.
void unpack() {
    [[unroll]] for (uint k = 0; k < CHUNK / 2; k++) {
        uint at = k * 32 + team_lane();
        uint to = team_from() + at / CHUNK * PITCH + at % CHUNK * 2;
        uvec4 v = words[k];
        work[to] = uvec4(v.x, v.x >> 4, v.y, v.y >> 4) & 0x0f0f0f0fu;
        work[to + 1] = uvec4(v.z, v.z >> 4, v.w, v.w >> 4) & 0x0f0f0f0fu;
    }
    [[unroll]] for (uint g = 0; g < GROUPS; g++) {
        float scale = bits_to_float(scale_bits[g], scales_DT), bias = bits_to_float(bias_bits[g], biases_DT);
        uint i = team_lane();
        work[team_from() + SCALES_FROM + g * 8 + i / 4][i & 3u] = floatBitsToUint(i < 16 ? scale : bias);
    }
}

FLOATS sums; // of a chunk

uint of_x(uint unit) { return block * UNITS + min(unit, UNITS - 1); }

// Brings the chunk of x into registers.
void take_x(uint unit) {
    UNROLL for (uint u = 0; u < CHUNK; u++) {
        take_unit(u, of_x(unit + u));
    }
}

void add_unit(uint u, uint unit, out FLOATS result) {
    if (HELD == 0) {
        take_unit(u, of_x(unit + u));
    }
    INTEGERS products;
    multiply_bytes(team_from() + 2 * u, u, of_x(unit + u), products);
    uint group = team_from() + SCALES_FROM + (u >> GROUP_SHIFT) * 8;
    unit_floats(products, group, u, of_x(unit + u), unit + u < UNITS, result);
}

// Adds up the units of the chunk as lanes of a subgroup would: pairs, and then the pairs.
void add_chunk(uint unit) {
    FLOATS one, two;
    UNROLL for (uint u = 0; u < CHUNK; u += 2) {
        add_unit(u, unit, two);
        add_unit(u + 1, unit, one);
        floats_add(two, one);
        if (u == 0) {
            sums = two;
        } else {
            floats_add(sums, two);
        }
    }
}

// The sums so far of the tiles of a round. An element belongs to one thread.
shared float totals[ROUNDS > 1 ? TURNS * SLOTS * TILE : 1];

uint total_at(uint turn, uint at_slot, uint i) { return (turn * SLOTS + at_slot) * TILE + i; }

// Element i of a slot's tile: what there was and what the teams add in this round.
float add_round(uint round_, uint turn, uint at_slot, uint i) {
    float total = round_ > 0 ? totals[total_at(turn, at_slot, i)] : 0.0;
    uint at = i / 16 * SUM_PITCH * 4 + i % 16;
    [[unroll]] for (uint slice = 0; slice < ABREAST / SLICE_CHUNKS; slice++) {
        float part[8];
        [[unroll]] for (uint c = 0; c < SLICE_CHUNKS; c++) {
            uint from = (at_slot * ABREAST + slice * SLICE_CHUNKS + c) * TEAM_QUADS; // zeros behind the last chunk
            part[c] = uintBitsToFloat(work[from + at / 4][at & 3u]);
        }
        [[unroll]] for (uint reach = 1; reach < SLICE_CHUNKS; reach *= 2) {
            [[unroll]] for (uint c = 0; c + reach < SLICE_CHUNKS; c += 2 * reach) {
                part[c] += part[c + reach];
            }
        }
        total += part[0];
    }
    return total;
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

uint residual_at(uint tile_first, uint i) {
    uint row = min(tile_first + i % 16, p.sets[0].n - 1), row_of_x = min(block * SIDE + i / 16, p.x_rows - 1);
    return p.residual_offset + row_of_x * p.sets[0].n + row;
}

// What finishing the thread's first element of a turn takes, loaded before it is needed.
uint residual_first;
float factor_first; // 1/rms, the same in every turn

void fetch_residual(uint round_, uint turn) {
    if (EPILOGUE == PROJECTION_RESIDUAL && round_ + 1 == ROUNDS && gl_LocalInvocationIndex < SLOTS * TILE) {
        uint mine = gl_LocalInvocationIndex;
        residual_first = residual_bits(residual_at(tile_row(turn, mine / TILE), mine % TILE));
    }
}

void fetch_factor() {
    if (NORM != 0) {
        factor_first = factors[block * SIDE + gl_LocalInvocationIndex % TILE / 16];
    }
}

// Element i of a tile: i % 16 of its rows of w, i / 16 of its rows of x. first: whether it is that element.
void finish(uint tile_first, uint i, float v, float second, bool first) {
    uint row = tile_first + i % 16;
    uint row_of_x = block * SIDE + i / 16;
    if (row >= p.sets[matrix].n || row_of_x >= p.x_rows) {
        return;
    }
    float factor = NORM == 0 ? 1.0 : first ? factor_first : factors[row_of_x];
    v = scaled_result(v, factor);
    if (PAIR) {
        v = silu_mul_result(v, scaled_result(second, factor));
    }
    if (EPILOGUE == PROJECTION_RESIDUAL) {
        v += bits_to_float(first ? residual_first : residual_bits(residual_at(tile_first, i)), y_DT);
    }
    store(row_of_x, row, v);
}

float waiting[(TILE + THREADS - 1) / THREADS]; // the first of a pair of tiles, until the second is there

// What the teams have of a turn's tiles, to where it belongs.
void collect(uint round_, uint turn) {
    const uint together = PAIR && SLOTS > 1 ? 2 : 1; // tiles that make a result
    [[unroll]] for (uint at = 0; at < SLOTS / together * TILE; at += THREADS) {
        uint mine = at + gl_LocalInvocationIndex;
        if (mine >= SLOTS / together * TILE) {
            break;
        }
        uint at_slot = mine / TILE * together, i = mine % TILE;
        float v = add_round(round_, turn, at_slot, i);
        float second = together > 1 ? add_round(round_, turn, at_slot + 1, i) : 0.0;
        if (round_ + 1 < ROUNDS) {
            totals[total_at(turn, at_slot, i)] = v;
            if (together > 1) {
                totals[total_at(turn, at_slot + 1, i)] = second;
            }
            continue;
        }
        if (PAIR && SLOTS == 1) {
            if (turn % 2 == 0) {
                waiting[at / THREADS] = v;
                continue;
            }
            second = v;
            v = waiting[at / THREADS];
        }
        finish(tile_row(turn, at_slot), i, v, second, at == 0);
    }
}

void main() {
    locate();
    fetch(0, 0);
    fetch_factor();
    [[dont_unroll]] for (uint round_ = 0; round_ < ROUNDS; round_++) {
        uint unit = first_unit(round_);
        if (HELD != 0) {
            take_x(unit);
        }
        [[dont_unroll]] for (uint turn = 0; turn < TURNS; turn++) {
            unpack();
            team_barrier();
            if (turn + 1 < TURNS) {
                fetch(round_, turn + 1);
            } else if (round_ + 1 < ROUNDS) {
                fetch(round_ + 1, 0);
            }
            fetch_residual(round_, turn);
            add_chunk(unit);
            team_barrier();
            floats_store(sums, team_from());
            barrier();
            collect(round_, turn);
            barrier();
        }
    }
}
