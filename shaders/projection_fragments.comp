// Products of several rows of x with affine codes of 4 bits: the columns are divided among workgroups as in
// projection_parts, and the sums of parts are put together in the same way. But lanes make matrices of float16 in their
// registers (fragments.glsl), so codes take no detour through shared memory.
//
// A chunk is the columns that have one scale, at most 128: a span of unit_integers.glsl. An integer is 2048 times a
// high digit plus a low one, which float16 holds. A code c becomes the subnormal number c * 2^-24, which takes a mask
// and no arithmetic. Tensor cores add up their products without rounding. So with groups of 128, a row has the same
// bits as in other kernels. Smaller groups are added up in another order, since there are no registers for the sums
// that would have to wait. They are taken only without batch invariance (WithoutBatchInvariance).
//
// Without it, one digit is also enough for x of 16 bits: a float16 holds the 11 bits of a float16 and the 8 of a
// bfloat16. Products of x and a gain are rounded to 11 bits, which is what a norm that stores float16 would keep. Sums
// of such products are not exact, but off by far less than that.
//
// variants: narrow_subgroup_khr
// requires: float16
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in; // TEAMS * 32

#include "quads.glsl"
#include "math.glsl"
#include "projection_sums.glsl"
#include "fragments.glsl"
#include "hidden.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = 1) const uint y_DT = DT_FLOAT32;
layout(constant_id = 2) const uint scales_DT = DT_FLOAT32;
layout(constant_id = 3) const uint biases_DT = DT_FLOAT32;
layout(constant_id = 4) const uint GROUP_SHIFT = 1; // log2 of the units of a group
layout(constant_id = 5) const uint COLS = 1024;     // of x, a multiple of 32
layout(constant_id = 6) const uint SETS = 1;        // matrices, of at least PAIR_ROWS rows each
layout(constant_id = 7) const uint PART = 16;       // units of a part
layout(constant_id = 8) const uint TEAMS = 8;
layout(constant_id = 9) const uint TURNS = 1; // pairs of tiles of a team
layout(constant_id = 10) const uint NORM = 0; // 1: without gain, 2: with
layout(constant_id = 13) const uint DIGITS_OF_X = 2; // 1 or 2
layout(constant_id = 14) const uint SIDE = 16;       // rows of x: 16 or 8

TENSOR_IN(0, x, 11)
QUADS_IN(0, x)
layout(set = 0, binding = 13) writeonly buffer PartSums { float part_sums[]; }; // by part, block, row of x and tile
TENSOR_IN(14, gain, 12)
QUADS_IN(14, gain)
layout(set = 0, binding = 15) writeonly buffer Squares { float squares[]; }; // of each unit of a row of x, for a norm

layout(push_constant) uniform Push { ProjectionParams p; };

const uint BITS = 4, UNIT_SCALES = 1, SMALL_SHIFT = 5;
const uint UNITS = COLS / 32;
const uint CHUNK = GROUP_SHIFT >= 2 ? 4 : 1 << GROUP_SHIFT; // units, and words of codes that a lane loads together
const uint RUN = PART / CHUNK;                              // chunks of a part
const uint PARTS = (UNITS + PART - 1) / PART;
const bool EVEN = UNITS % PART == 0;
const uint THREADS = TEAMS * 32;
const uint BLOCKS = SIDE / 8;                       // matrices of rows of x
const uint TILES = 2, PAIR_ROWS = 16 * TILES;       // that a team has at a time
const uint HELD = 4;                                // chunks whose scales a team holds at a time
const uint LAST_GROUP = (UNITS - 1) >> GROUP_SHIFT; // of a row of w

const uint SPAN = DIGITS_OF_X == 2 ? CHUNK : 1;
#include "code_bytes.glsl"
#include "projection_matrices.glsl"

// The digits of x, four pairs in a quad, by block, chunk, quad and lane; then for each chunk and row of x its multiple
// and sum, and then what a lane's sums of products begin with, for each two rows of x: those with the high digits, and
// with the low ones.
const uint DIGIT_QUADS = CHUNK * DIGITS_OF_X; // of a chunk: one or two for each word
const uint FACTORS_FROM = BLOCKS * RUN * DIGIT_QUADS * 32;
const uint STARTS_AFTER = RUN * SIDE / 2;
shared uvec4 work[FACTORS_FROM + (SPAN > 1 ? 3 : 1) * STARTS_AFTER];
shared uint row_scales[TEAMS * 32 * HELD]; // scale and bias, 16 bits each, by team, row of w and chunk

uint team() { return gl_SubgroupID; }
uint lane() { return gl_SubgroupInvocationID; }

void team_barrier() {
    subgroupMemoryBarrierShared();
    subgroupBarrier();
}

#include "part_places.glsl"
#include "fragment_digits.glsl"

uvec4 words[2 * TILES]; // codes under way: of rows 0 to 7 of the first tile, 8 to 15, and those of the second
uint scale_bits[HELD], bias_bits[HELD];

// In place of columns that do not exist, the last ones are read; digits are zero there.
uint within(uint i, uint last) { return EVEN ? i : min(i, last); }

// Start the loads of the codes of a chunk, and of the scales and biases of HELD chunks: neighbouring lanes have those
// of neighbouring chunks of a row.
#define FETCHES(i) \
    void fetch_codes##i(uint first, uint chunk) { \
        uint t = lane() % 4, from = p.sets[i].w_offset + (first + lane() / 4) * p.sets[i].w_stride; \
        [[unroll]] for (uint k = 0; k < 2 * TILES; k++) { \
            uint at = from + k * 8 * p.sets[i].w_stride; \
            if (CHUNK == 4) { \
                words[k] = w##i.data[at / 4 + within(chunk * 4 + t, UNITS - 1)]; \
            } else if (CHUNK == 2) { \
                words[k].xy = w##i##_2.data[at / 2 + within(chunk * 4 + t, UNITS * 2 - 1)]; \
            } else { \
                words[k].x = w##i##_1.data[at + within(chunk * 4 + t, UNITS * 4 - 1)]; \
            } \
        } \
    } \
    void fetch_scales##i(uint first, uint chunk) { \
        uint row = first + lane() / HELD; \
        uint number = within((chunk + lane() % HELD) * CHUNK >> GROUP_SHIFT, LAST_GROUP); \
        uint scale_at = p.sets[i].s_offset + row * p.sets[i].s_stride + number; \
        uint bias_at = p.sets[i].b_offset + row * p.sets[i].b_stride + number; \
        [[unroll]] for (uint k = 0; k < HELD; k++) { \
            scale_bits[k] = scales##i##_loose_bits(scale_at + k * (32 / HELD) * p.sets[i].s_stride); \
            bias_bits[k] = biases##i##_loose_bits(bias_at + k * (32 / HELD) * p.sets[i].b_stride); \
        } \
    }

FETCHES(0)
FETCHES(1)
FETCHES(2)

void store_scales(uint chunk) {
    team_barrier();
    bool exists = EVEN || (chunk + lane() % HELD) * CHUNK < UNITS; // otherwise zero: what was read may be infinite
    [[unroll]] for (uint k = 0; k < HELD; k++) {
        uint both = (scale_bits[k] & 0xffffu) | (bias_bits[k] << 16);
        row_scales[(team() * HELD + k) * 32 + lane()] = exists ? both : 0;
    }
    team_barrier();
}

// The scale and the bias of a row of the team's tiles.
vec2 scale_of(uint chunk, uint row) {
    uint bits = row_scales[(team() * 32 + row) * HELD + chunk % HELD];
    // bits_to_float ignores those above 16.
    return byte_factors(bits_to_float(bits, scales_DT), bits_to_float(bits >> 16, biases_DT));
}

SUMS totals[TILES * BLOCKS];

void clear_totals() {
    [[unroll]] for (uint i = 0; i < TILES * BLOCKS; i++) {
        totals[i] = SUMS(-0.0); // the neutral element: even -0 stays -0
    }
}

// What sums of products of a chunk with a block of x begin with, those with the high digits and with the low ones.
void begin_sums(uint b, uint chunk, out SUMS high, out SUMS low) {
    vec4 of_high = vec4(0.0), of_low = vec4(0.0);
    if (SPAN > 1) {
        uint at = starts_at(chunk, b * 8 + lane() % 4 * 2);
        of_high = uintBitsToFloat(work[at]);
        of_low = uintBitsToFloat(work[at + 1]);
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        high[i] = of_high[i];
        low[i] = of_low[i];
    }
}

// Adds the products of a chunk to totals.
void add_chunk(uint chunk, uvec4 codes[2 * TILES]) {
    SUMS high_sums[TILES * BLOCKS], low_sums[TILES * BLOCKS];
    [[unroll]] for (uint b = 0; b < BLOCKS; b++) {
        SUMS high, low;
        begin_sums(b, chunk, high, low);
        [[unroll]] for (uint t = 0; t < TILES; t++) {
            high_sums[t * BLOCKS + b] = high;
            low_sums[t * BLOCKS + b] = low;
        }
    }
    [[unroll]] for (uint i = 0; i < 2 * CHUNK; i++) {
        uint shift = i % 2 * 8;
        WEIGHTS w[TILES];
        [[unroll]] for (uint t = 0; t < TILES; t++) {
            uint upper = codes[2 * t][i / 2] >> shift, lower = codes[2 * t + 1][i / 2] >> shift;
            set_weights(w[t], upper & 0x000f000fu, upper & 0x00f000f0u, lower & 0x000f000fu, lower & 0x00f000f0u);
        }
        [[unroll]] for (uint b = 0; b < BLOCKS; b++) {
            uvec4 digits = digits_of_step(b, chunk, i / 2, i % 2);
            DIGITS high, low;
            set_digits(high, digits.xy);
            if (DIGITS_OF_X == 2) {
                set_digits(low, digits.zw);
            }
            [[unroll]] for (uint t = 0; t < TILES; t++) {
                high_sums[t * BLOCKS + b] = coopMatMulAdd(w[t], high, high_sums[t * BLOCKS + b]);
                if (DIGITS_OF_X == 2) {
                    low_sums[t * BLOCKS + b] = coopMatMulAdd(w[t], low, low_sums[t * BLOCKS + b]);
                }
            }
        }
    }
    vec2 by[2 * TILES]; // scales and biases of the lane's rows
    [[unroll]] for (uint k = 0; k < 2 * TILES; k++) {
        by[k] = scale_of(chunk, 8 * k + lane() / 4);
    }
    [[unroll]] for (uint b = 0; b < BLOCKS; b++) {
        vec4 of_x = uintBitsToFloat(work[factors_at(chunk, b * 8 + lane() % 4 * 2)]);
        [[unroll]] for (uint t = 0; t < TILES; t++) {
            uint at = t * BLOCKS + b;
            [[unroll]] for (uint i = 0; i < 4; i++) {
                uint k = 2 * t + i / 2, column = i % 2 * 2;
                float low = DIGITS_OF_X == 2 ? low_sums[at][i] : 0.0;
                float products = fma(high_sums[at][i], HIGH_DIGIT, low) * of_x[column];
                totals[at][i] += unit_product(products, by[k].x, by[k].y, of_x[column + 1]);
            }
        }
    }
}

// Rows of x beyond the last have a place as well.
void store_sums(uint first) {
    uint pitch = sums_pitch();
    uint at = (part * blocks + block) * SIDE * pitch + tiles_before(set_of_group) * 16 + first;
    [[unroll]] for (uint t = 0; t < TILES; t++) {
        [[unroll]] for (uint b = 0; b < BLOCKS; b++) {
            coopMatStore(totals[t * BLOCKS + b], part_sums, at + b * 8 * pitch + t * 16, pitch,
                         gl_CooperativeMatrixLayoutColumnMajor);
        }
    }
}

// The first row of w of a step, a multiple of 4, as coopMatStore wants. There is always a whole pair of tiles from
// there on: the last one begins among the rows of the one before, and is repeated in place of those beyond; its sums
// are the same, and stored in the same place.
#define FIRST_ROW(i, step_) min((first_turn + (step_) / RUN * TEAMS) * PAIR_ROWS, p.sets[i].n - PAIR_ROWS)
#define CHUNK_OF(step_) (part * RUN + (step_) % RUN)

// The team's tiles of one matrix, a chunk in a step. There is a copy for each matrix, as in projection_parts.
#define GO_THROUGH_TILES(i) \
    uint steps = HIDDEN(TURNS * RUN, p.x_rows); \
    if (steps > 0) { /* without the branch, drivers move these loads to where they are needed */ \
        fetch_codes##i(FIRST_ROW(i, 0), CHUNK_OF(0)); \
        fetch_scales##i(FIRST_ROW(i, 0), CHUNK_OF(0)); \
        load_eight(0); \
    } \
    make_digits(); \
    barrier(); \
    clear_totals(); \
    [[dont_unroll]] for (uint step_ = 0; step_ < steps; step_++) { \
        if (step_ % HELD == 0) { \
            store_scales(CHUNK_OF(step_)); \
            fetch_scales##i(FIRST_ROW(i, step_ + HELD), CHUNK_OF(step_ + HELD)); \
        } \
        uvec4 codes[2 * TILES] = words; \
        if (step_ + 1 < steps) { \
            fetch_codes##i(FIRST_ROW(i, step_ + 1), CHUNK_OF(step_ + 1)); \
        } else { /* otherwise the driver would copy the old codes to keep them */ \
            words = uvec4[](uvec4(0), uvec4(0), uvec4(0), uvec4(0)); \
        } \
        add_chunk(step_ % RUN, codes); \
        if (step_ % RUN + 1 == RUN) { \
            store_sums(FIRST_ROW(i, step_)); \
            clear_totals(); \
        } \
    }

void main() {
    locate(team());
    if (SETS == 1 || set_of_group == 0) {
        GO_THROUGH_TILES(0)
    } else if (SETS == 2 || set_of_group == 1) {
        GO_THROUGH_TILES(1)
    } else {
        GO_THROUGH_TILES(2)
    }
}
