// projection_coopmat with the columns divided among workgroups, for products that give each compute unit much to do. It
// computes the same sums of the same integers, except for the last steps, which are left to projection_join or to the
// kernel that takes the results (heads_of_sums.glsl).
//
// A part of the columns is PART units of 32, a slice of projection.comp or half of it. A workgroup makes the digits of
// x for one part and a block of SIDE rows. After that, its teams do not wait for each other: each goes through TURNS
// tiles of 16 rows of a matrix, chunk by chunk, and loads the codes of the next chunk meanwhile. So compute units have
// more to do at a time, and the code stays short enough for their caches of instructions. With OVERLAP, the first codes
// are loaded before x is there.
//
// Tiles of all matrices are numbered one after the other, and the sums of tile t are columns 16t to 16t + 15 of a row.
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

layout(constant_id = 1) const uint y_DT = DT_FLOAT32;
layout(constant_id = 2) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 3) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 4) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 5) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 6) const uint SETS = 1;        // matrices
layout(constant_id = 7) const uint PART = 16;       // units of a part: 8 or 16
layout(constant_id = 8) const uint TEAMS = 8;
layout(constant_id = 9) const uint TURNS = 1;
layout(constant_id = 10) const uint SIDE = 16; // rows of x: 16 or 8
layout(constant_id = 11) const uint BITS = 4;
layout(constant_id = 12) const uint SCALE_WORDS = 0; // as in projection_coopmat

layout(constant_id = 13) const uint NORM = 0; // 1: without gain, 2: with

TENSOR_IN(0, x, 14)
QUADS_IN(0, x)
layout(set = 0, binding = 13) writeonly buffer PartSums { float part_sums[]; }; // by part, block, row of x and tile
TENSOR_IN(14, gain, 15)
QUADS_IN(14, gain)
layout(constant_id = 16) const uint SPAN = 1; // units whose products are added up as integers: unit_integers.glsl
layout(constant_id = 17) const uint OVERLAP = 0; // 1 << a binding
#include "awaited_x.glsl"
layout(set = 0, binding = 15) writeonly buffer Squares { float squares[]; }; // of each unit of a row of x, for a norm

layout(push_constant) uniform Push { ProjectionParams p; };

const bool PAIR = false;
const uint matrix = 0; // coopmat_codes.glsl's own choice of a matrix is not used
const uint TILES = 1, X_BLOCKS = 1, UNIT_SCALES = 1;
const uint UNITS = COLS / 32;
const uint CHUNK = 4;
const uint RUN = PART / CHUNK; // chunks of a part
const uint PARTS = (UNITS + PART - 1) / PART;
const uint UNIT_QUADS = BITS / 4, ROW_QUADS = CHUNK * UNIT_QUADS;
const uint SMALL_SHIFT = 5;
const bool EVEN = UNITS % PART == 0;
const uint THREADS = TEAMS * 32;
const uint GROUPS = (CHUNK >> GROUP_SHIFT) == 0 ? 1 : CHUNK >> GROUP_SHIFT; // of scales in a chunk
const uint UNIT_PITCH = 2, PITCH = UNIT_PITCH * CHUNK + 1;                  // quads of a unit, and of a row of a chunk
const uint LAST_GROUP = (UNITS - 1) >> GROUP_SHIFT;                         // of a row
const uint WORD_SCALES = SCALE_WORDS == 0 ? 1 : GROUPS / SCALE_WORDS;
const uint SCALES_FROM = 16 * PITCH, TILE_QUADS = SCALES_FROM + GROUPS * 8;
const uint SUM_PITCH = 0; // sums do not go through shared memory
const uint HELD_PITCH = X_PITCH, UNIT_SUMS = X_SUMS(SIDE) - X_MULTIPLES(SIDE);
const uint X_QUADS = X_SQUARES(SIDE); // of a chunk of x: all but the sums of squares
const uint X_FROM = TEAMS * TILE_QUADS;

shared uvec4 work[X_FROM + RUN * X_QUADS];

const uint HELD_UNITS = 1, HELD_TILES = 1;

#include "code_bytes.glsl"
#include "unit_digits.glsl"
#include "byte_tiles.glsl"

uint x_block() { return 0; }
uint place() { return team(); }
uint slot() { return 0; }

#include "part_places.glsl"
uint set_tiles; // of the workgroup's matrix
uint first_row; // of the tile whose codes are loaded

uint tile_row(uint) { return first_row; }

#include "coopmat_codes.glsl"

// Four neighbouring threads make a unit of the part.
vec4 x_low, x_high, gain_low, gain_high; // under way

// Which eight columns: 4 * SPAN neighbours always have a span, so that shuffles are not in a branch. Threads beyond the
// last repeat its work.
uint eight_of(uint pass) {
    const uint lanes = 4 * SPAN;
    uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    return min((pass * THREADS + thread) / lanes, EIGHTS / lanes - 1) * lanes + thread % lanes;
}

// In place of rows beyond the last, the last is repeated, and so are units, whose products are not used.
void load_eight(uint pass) {
    uint eight = eight_of(pass), row = min(block * SIDE + row_of(eight), p.x_rows - 1);
    uint column = min(part * PART + unit_of(eight), UNITS - 1) * 32 + eight % 4 * 8;
    if (NORM == 2) {
        gain_low = gain_quad(p.gain_offset + column);
        gain_high = gain_quad(p.gain_offset + column + 4);
    }
    do {
        x_low = x_in(p.x_offset + row * COLS + column);
        x_high = x_in(p.x_offset + row * COLS + column + 4);
    } while (AWAITS_X && subgroupAny(x_is_missing(x_low) || x_is_missing(x_high))); // shuffles follow
}

void make_eight(uint pass, vec4 low, vec4 high, vec4 by_low, vec4 by_high) {
    uint eight = eight_of(pass), row = row_of(eight), unit = unit_of(eight), i = eight % 4;
    UnitDigits made = unit_digits(low, high, NORM == 2, by_low, by_high, EVEN_FIRST);
    uint to = X_FROM + unit / CHUNK * X_QUADS;
    [[unroll]] for (uint digit = 0; digit < 3; digit++) {
        uint at = to + (digit * SIDE + row) * X_PITCH + unit % CHUNK * 2 + i / 2;
        work[at][i % 2 * 2] = made.digits[digit].x;
        work[at][i % 2 * 2 + 1] = made.digits[digit].y;
    }
    if (i == 0) {
        uint at = to + (unit % CHUNK * SIDE + row) / 4;
        work[at + X_MULTIPLES(SIDE)][row & 3u] = floatBitsToUint(made.multiple);
        work[at + X_SUMS(SIDE)][row & 3u] = floatBitsToUint(made.sum);
        work[at + X_STARTS(SIDE)][row & 3u] = uint(made.start);
        uint x_row = block * SIDE + row, x_unit = part * PART + unit;
        if (NORM != 0 && first_of_part && x_row < p.x_rows && x_unit < UNITS) {
            squares[x_row * UNITS + x_unit] = made.square;
        }
    }
}

#include "chunk_sums.glsl"

FLOATS sums; // of a part so far

// Adds the products of a chunk to the sums, or begins with them.
void add_chunk(uint unit, uint x, bool first) {
    uint tile = tile_from(place(), 0);
    FLOATS result;
    UNROLL for (uint u = 0; u < CHUNK; u++) {
        if (u % SPAN == 0) {
            begin_span(0);
        }
        hold_unit(0, x + 2 * u);
        multiply_bytes(tile + UNIT_PITCH * u, 0, 0);
        if ((u + 1) % SPAN == 0) {
            hold_span(0, x + X_MULTIPLES(SIDE) + u * SIDE / 4);
            if (begins_group(u)) {
                hold_scales(0, tile + SCALES_FROM + (u >> GROUP_SHIFT) * 8);
            }
            span_floats(0, 0, unit + u < UNITS, result);
            add_to_chunk(u, 0, result);
        }
    }
    if (!first) {
        floats_add(result, sums);
    }
    sums = result;
}

// Rows of x beyond the last and rows of w beyond those of a matrix have a place as well.
void store_sums(uint tile) {
    uint pitch = sums_pitch();
    uint at = (part * blocks + block) * SIDE * pitch + (tiles_before(set_of_group) + tile) * 16;
#ifdef COOPMAT_KHR
    coopMatStore(sums, part_sums, at, pitch, gl_CooperativeMatrixLayoutColumnMajor);
#else
    [[unroll]] for (uint i = 0; i < ELEMENTS; i++) {
        part_sums[at + column_of_lane(i) * pitch + row_of_lane()] = sums.v[i];
    }
#endif
}

// Not unrolled: code that runs for the first time waits until it is fetched, so there should be little of it.
#define MAKE_X \
    uint passes = HIDDEN(PASSES, p.x_rows); \
    [[dont_unroll]] for (uint pass = 0; pass < passes; pass++) { \
        vec4 low = x_low, high = x_high, by_low = gain_low, by_high = gain_high; \
        if (pass + 1 < passes) { \
            load_eight(pass + 1); \
        } \
        make_eight(pass, low, high, by_low, by_high); \
    }

// Starts the loads of the codes of a step: chunk step_ % RUN of a tile, another one where there is no such tile.
#define FETCH_STEP(i, step_) \
    first_row = min(first_turn + (step_) / RUN * TEAMS, set_tiles - 1) * 16; \
    fetch##i(0, first_row, (part * RUN + (step_) % RUN) * CHUNK);

// The team's tiles of one matrix. There is a copy for each matrix: loads in branches of the loop would end in registers
// that differ, and be moved, and so waited for, where the branches meet.
#define GO_THROUGH_TILES(i) \
    uint steps = HIDDEN(TURNS * RUN, p.x_rows); \
    if (steps > 0) { /* without the branch, drivers move these loads to where they are needed */ \
        FETCH_STEP(i, 0) \
        load_eight(0); \
    } \
    MAKE_X \
    barrier(); \
    [[dont_unroll]] for (uint step_ = 0; step_ < steps; step_++) { \
        uint number = step_ % RUN, tile = first_turn + step_ / RUN * TEAMS; \
        unpack(); \
        team_barrier(); \
        if (step_ + 1 < steps) { \
            FETCH_STEP(i, step_ + 1) \
        } \
        add_chunk((part * RUN + number) * CHUNK, X_FROM + number * X_QUADS, number == 0); \
        team_barrier(); \
        if (number + 1 == RUN && tile < set_tiles) { \
            store_sums(tile); \
        } \
    }

void main() {
    locate(team());
    set_tiles = tiles_in(set_of_group);
    if (SETS == 1 || set_of_group == 0) {
        GO_THROUGH_TILES(0)
    } else if (SETS == 2 || set_of_group == 1) {
        GO_THROUGH_TILES(1)
    } else {
        GO_THROUGH_TILES(2)
    }
}
