// How codes of projection_coopmat and projection_parts get from memory, a chunk ahead, to shared memory, as bytes, with
// the scales and biases.
//
// Before the include: code_bytes.glsl; what the kernel declares of its matrices and places in shared memory, and which
// of them the team has.
#ifndef COOPMAT_CODES_GLSL
#define COOPMAT_CODES_GLSL

#include "projection_matrices.glsl"

// Codes in flight, and the bits of the scale and the bias that the lane loads. They have separate registers: if some
// lanes loaded one and some the other, these loads would wait for each other.
const bool BY_UNITS = BITS % 4 != 0; // a lane loads whole units, not quads
const uint UNITS_HELD = CHUNK / 2 / X_BLOCKS, WORDS = ROW_QUADS / 2 / X_BLOCKS; // of a tile, each lane
uvec4 words[BY_UNITS ? 1 : TILES * WORDS];
uint unit_words[BY_UNITS ? TILES * UNITS_HELD * BITS : 1];
uint scale_bits[TILES * GROUPS], bias_bits[TILES * GROUPS];

// Which quad of a tile's codes a lane loads, or which unit.
uint tile_part(uint k) { return (k * X_BLOCKS + x_block()) * 32 + team_lane(); }

#define FETCHES(i) \
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
            if (SCALE_WORDS != 0 && g >= SCALE_WORDS) { \
                continue; \
            } \
            uint number = (unit >> GROUP_SHIFT) * UNIT_SCALES; /* of the group; after the last chunk, one of that */ \
            number = SCALE_WORDS != 0 ? min(number, LAST_GROUP + 1 - GROUPS) : min(number + g, LAST_GROUP); \
            uint scale_at = p.sets[i].s_offset + row * p.sets[i].s_stride + number; \
            uint bias_at = p.sets[i].b_offset + row * p.sets[i].b_stride + number; \
            if (SCALE_WORDS != 0) { \
                scale_bits[t * GROUPS + g] = scales##i##_32.data[scale_at / WORD_SCALES + g]; \
                bias_bits[t * GROUPS + g] = SMALL_FLOATS ? 0 : biases##i##_32.data[bias_at / WORD_SCALES + g]; \
                continue; \
            } \
            scale_bits[t * GROUPS + g] = scales##i##_loose_bits(scale_at); \
            bias_bits[t * GROUPS + g] = SMALL_FLOATS ? 0 : biases##i##_loose_bits(bias_at); \
        } \
    }

FETCHES(0)
FETCHES(1)
FETCHES(2)

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
     : SMALL_FLOATS ? (words[(t) * GROUPS + (g) / 4] >> (8 * ((g) % 4))) & 255u \
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
            uint to = tile_from(place(), t) + at / ROW_QUADS * PITCH + at % ROW_QUADS * (BITS == 8 ? 1 : UNIT_PITCH);
            uvec4 v = words[t * WORDS + k];
            if (BITS == 8) {
                work[to] = byte_bytes(v);
                continue;
            }
            work[to] = nibble_bytes(v.xy);
            work[to + UNIT_SCALES] = nibble_bytes(v.zw);
            if (UNIT_SCALES == 2) {
                work[to + 1] = uvec4(0);
            }
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

#endif
