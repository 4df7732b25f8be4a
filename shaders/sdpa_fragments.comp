// Attention of many queries like sdpa_coopmat, but lanes make matrices of float16 in their registers (fragments.glsl).
// sdpa_split writes the operands in the order in which lanes load them, so nothing goes through shared memory, and
// subgroups do not wait for each other. A subgroup has one or two tiles of 16 rows of q, scores and weights of KEYS
// keys at a time, and the sums of weighted values. With g = lane / 4 and t = lane % 4, a lane has of each tile:
//
//   of q        rows 2g and 2g + 1, which are rows g and g + 8 of matrices
//   of scores   those of its rows and keys 4t to 4t + 3 of each 16, in pairs: columns 2t and 2t + 1 of two matrices
//   of results  those of its rows and elements 8t to 8t + 7 of each 32 (a chunk): element 4c + m is in column c of the
//               chunk's matrix m
//
// So the scores of 16 keys become an operand of products with values without leaving the lane.
//
// The weights of tiles at an edge, with a mask, or with other exponents than the common one are computed differently. A
// row's result does not depend on that, nor on the other rows of its subgroup, except that the last one determines
// where ranges of keys begin.
//
// NVIDIA's driver does not unroll a loop around branches or operations of subgroups, and keeps arrays that are used in
// such a loop in memory, which takes four times as long. So there are no loops there, but vectors and functions.
//
// variants: narrow_subgroup_khr
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require

#include "attention_matrices.glsl"
#include "fragments.glsl"
#include "hidden.glsl"

layout(constant_id = 15) const uint W_PARTS = 2;   // of the softmax's weights
layout(constant_id = 16) const uint ROW_TILES = 1; // of 16 rows of q, that a subgroup has: 1 or 2
layout(constant_id = 17) const uint Q_HELD = 2;    // tiles of q in shared memory: first those of the first part

// Keys and values as what lanes load of 32 elements of a tile of keys. Addresses then take fewer instructions. With
// NVIDIA's driver this is faster if all operands have one part, and otherwise slower.
struct Chunk {
    uvec4 quads[128];
};
layout(set = 0, binding = 7) readonly buffer KChunks { Chunk k_chunks[]; };
layout(set = 0, binding = 8) readonly buffer VChunks { Chunk v_chunks[]; };
const bool IN_CHUNKS = Q_PARTS == 1 && K_PARTS == 1 && V_PARTS == 1;

const uint KEYS = SPLIT_TILE, KEY_TILES = KEYS / 8;
const uint K_CHUNKS = (K_STEPS + 1) / 2, V_CHUNKS = (V_STEPS + 1) / 2; // of 32 elements of a head
const uint K_LOADS = K_PARTS * K_CHUNKS * 4, V_LOADS = V_PARTS * V_CHUNKS * 4, LOADS = K_LOADS + V_LOADS;
const uint MOST_AHEAD = K_PARTS > 1 && ROW_TILES == 1 ? 16 : 8;
const uint AHEAD = LOADS % MOST_AHEAD == 0 ? MOST_AHEAD : LOADS % 8 == 0 ? 8 : 4; // loads under way
const uint WAVES = SDPA_WAVES;
const uint SECOND = ROW_TILES - 1; // tile of rows, where there are two; not 1, which arrays for one tile do not have
const float WEIGHT_EXPONENT = 14.0; // weights are up to 2^14 in float16
const uint NO_KEY = 0xffffffffu;

uint k_plane, v_plane; // quads of a part
uint k_at, v_at;       // the head's first chunks, or this lane's first quads of the head
uint tile, last_tile;  // the last one of the workgroup's keys that any row of the subgroup sees
uvec4 held[AHEAD];

// Each lane's own words of the first Q_HELD tiles of q: they would take too many registers. Those of the others are
// loaded again for each tile of keys.
shared uvec4 q_words[Q_HELD * K_CHUNKS * 2 * WAVES * 32];
uint own_q[ROW_TILES]; // where they begin in q_parts, for each tile of rows

// For each tile of rows:
vec4 scores[ROW_TILES * KEY_TILES];     // two keys of the first row, and of the second
vec4 acc[ROW_TILES * V_CHUNKS * 4];     // sums of weighted values
vec2 top[ROW_TILES], weight[ROW_TILES]; // of the two rows: the highest score so far; the sum of this lane's weights

int sums_exponent; // acc is in units of 2^sums_exponent
int key_exponent, value_exponent, next_key_exponent, next_value_exponent; // of the key of this lane in a tile
uint special_from; // the first key that has an element that is not finite, or whose value has one

bool is_held(uint r, uint part) { return part * ROW_TILES + r < Q_HELD; }
uint q_at(uint r, uint part, uint s) {
    return ((part * ROW_TILES + r) * K_CHUNKS * 2 + s) * WAVES * 32 + gl_LocalInvocationIndex;
}
uint g() { return gl_SubgroupInvocationID / 4; }
uint t() { return gl_SubgroupInvocationID % 4; }

// Load i of a tile, or of the next one if there are fewer. For each chunk of keys and each part: four times 8 keys. For
// each half of the values, each chunk, and each part: two times two elements of four keys.
uvec4 fetch(uint i) {
    uint of = i < LOADS ? tile : min(tile + 1, last_tile);
    i %= LOADS;
    if (i < K_LOADS) {
        uint c = i / 4 / K_PARTS, part = i / 4 % K_PARTS;
        if (IN_CHUNKS) {
            return k_chunks[k_at + of * K_CHUNKS + c].quads[gl_SubgroupInvocationID + i % 4 * 32];
        }
        return k_parts[part * k_plane + k_at + ((of * K_CHUNKS + c) * 4 + i % 4) * 32];
    }
    i -= K_LOADS;
    uint b = i / 2 / V_PARTS / V_CHUNKS, c = i / 2 / V_PARTS % V_CHUNKS, part = i / 2 % V_PARTS;
    if (IN_CHUNKS) {
        return v_chunks[v_at + of * V_CHUNKS + c].quads[gl_SubgroupInvocationID + (b * 2 + i % 2) * 32];
    }
    return v_parts[part * v_plane + v_at + ((of * V_CHUNKS + c) * 4 + b * 2 + i % 2) * 32];
}

// Words of step s of 16 elements of q.
uvec4 fetch_q(uint r, uint part, uint s) {
    uint plane = p.rows / rows * ((rows + 15) / 16) * K_CHUNKS * 64;
    return q_parts[part * plane + own_q[r] + s * 32];
}

uvec4 q_word(uint r, uint part, uint s) { return is_held(r, part) ? q_words[q_at(r, part, s)] : fetch_q(r, part, s); }

// Uses load i of values, and begins the one that takes its place.
uvec4 take(uint i) {
    uvec4 v = held[i % AHEAD];
    held[i % AHEAD] = fetch(i + AHEAD);
    return v;
}

// Past the length, keys have the exponents of zeros. Past the capacity there are none, so the last key's are loaded.
void fetch_exponents(uint of) {
    uint key = first_key + min(of * KEYS + gl_SubgroupInvocationID, p.keys - 1);
    next_key_exponent = k_exponents[key];
    next_value_exponent = v_exponents[key];
}

// The subgroup's products of parts, of its rows and KEYS keys.
void score_tile() {
    [[unroll]] for (uint j = 0; j < ROW_TILES * KEY_TILES; j++) {
        scores[j] = vec4(0.0);
    }
    [[unroll]] for (uint c = 0; c < K_CHUNKS; c++) {
        [[unroll]] for (uint part = 0; part < K_PARTS; part++) {
            uvec4 words[KEY_TILES];
            [[unroll]] for (uint j = 0; j < KEY_TILES; j++) {
                uint i = (c * K_PARTS + part) * 4 + j;
                words[j] = held[i % AHEAD];
                if (i + AHEAD < K_LOADS) { // main begins the loads of values
                    held[i % AHEAD] = fetch(i + AHEAD);
                }
            }
            [[unroll]] for (uint s = 0; s < 2; s++) {
                [[unroll]] for (uint i = 0; i < Q_PARTS - part * (Q_PARTS - 1); i++) {
                    [[unroll]] for (uint r = 0; r < ROW_TILES; r++) {
                        uvec4 q = q_word(r, i, 2 * c + s);
                        [[unroll]] for (uint j = 0; j < KEY_TILES; j++) {
                            uint at = r * KEY_TILES + j;
                            scores[at] = mul_add(q, s == 0 ? words[j].xy : words[j].zw, scores[at]);
                        }
                    }
                }
            }
        }
    }
}

// The first operand of the products with the values of 16 keys, from the weights of two times 8.
uvec4 operand(uint j, bool low) {
    vec4 v[2];
    [[unroll]] for (uint h = 0; h < 2; h++) {
        vec4 high = W_PARTS > 1 ? high_part4(scores[j + h]) : scores[j + h];
        v[h] = low ? scores[j + h] - high : high;
    }
    return uvec4(packFloat2x16(f16vec2(v[0].xy)), packFloat2x16(f16vec2(v[0].zw)), packFloat2x16(f16vec2(v[1].xy)),
                 packFloat2x16(f16vec2(v[1].zw)));
}

// Adds the tile's weighted values.
void add_values() {
    [[unroll]] for (uint b = 0; b < 2; b++) {
        uvec4 w[2 * ROW_TILES];
        [[unroll]] for (uint r = 0; r < ROW_TILES; r++) {
            w[2 * r] = operand(r * KEY_TILES + 2 * b, false);
            w[2 * r + 1] = operand(r * KEY_TILES + 2 * b, true);
        }
        [[unroll]] for (uint c = 0; c < V_CHUNKS; c++) {
            [[unroll]] for (uint part = 0; part < V_PARTS; part++) {
                uint i = K_LOADS + ((b * V_CHUNKS + c) * V_PARTS + part) * 2;
                uvec4 first = take(i), second = take(i + 1);
                [[unroll]] for (uint r = 0; r < ROW_TILES; r++) {
                    [[unroll]] for (uint k = 0; k < W_PARTS - part * (W_PARTS - 1); k++) {
                        uint at = (r * V_CHUNKS + c) * 4;
                        acc[at] = mul_add(w[2 * r + k], first.xy, acc[at]);
                        acc[at + 1] = mul_add(w[2 * r + k], first.zw, acc[at + 1]);
                        acc[at + 2] = mul_add(w[2 * r + k], second.xy, acc[at + 2]);
                        acc[at + 3] = mul_add(w[2 * r + k], second.zw, acc[at + 3]);
                    }
                }
            }
        }
    }
}

// Turns products into weights relative to the rows' highest score so far, whose weight is 2^14; unit times a product is
// a score. Rescales the sums accordingly, and by scale: a branch around that would cost as many copies of registers.
// r: which tile of rows.
void weigh(uint r, float unit, float scale) {
    uint from = r * KEY_TILES;
    vec2 most = top[r];
    [[unroll]] for (uint j = 0; j < KEY_TILES; j++) {
        scores[from + j] *= unit;
        most = max(most, max(scores[from + j].xz, scores[from + j].yw));
    }
    most = max(most, vec2(subgroupShuffleXor(most.x, 1), subgroupShuffleXor(most.y, 1)));
    most = max(most, vec2(subgroupShuffleXor(most.x, 2), subgroupShuffleXor(most.y, 2)));
    vec2 keep = exp2(top[r] - most);
    top[r] = most;
    vec2 sum = weight[r] * keep;
    vec4 factors = keep.xxyy * scale;
    [[unroll]] for (uint n = 0; n < V_CHUNKS * 4; n++) {
        acc[r * V_CHUNKS * 4 + n] *= factors;
    }
    vec2 least = mix(most - WEIGHT_EXPONENT, vec2(0.0), equal(most, vec2(LOWEST))); // so that LOWEST weighs nothing
    [[unroll]] for (uint j = 0; j < KEY_TILES; j++) {
        scores[from + j] = exp2(scores[from + j] - least.xxyy);
        sum += scores[from + j].xz + scores[from + j].yw;
    }
    weight[r] = sum;
}

#include "attention_special.glsl"

// 1 if an exponent is the common one or that of zeros, else 0. Operators that skip an operand would be branches, across
// which the driver does not move loads.
uint is_common(int exponent) { return uint(exponent == -SPLIT_COMMON) | uint(exponent == SPLIT_ZERO); }

// Row h, 0 or 1, of this lane's in tile r.
void store_row(uint row0, uint r, uint h, float sum_of_weights, float factor) {
    uint own = row0 + 16 * r + 2 * g() + h;
    Row row = row_of(min(own, rows - 1), key_length());
    if (HAS_RANGES != 0 && own < rows && t() == 0) {
        store_part(row, top[r][h], sum_of_weights);
    }
    [[unroll]] for (uint c = 0; c < V_CHUNKS; c++) {
        [[unroll]] for (uint k = 0; k < 8; k++) {
            uint e = c * 32 + 8 * t() + k;
            if (own < rows && e < p.dv) {
                float sum = acc[(r * V_CHUNKS + c) * 4 + k % 4][2 * h + k / 4];
                y_store(row.to + e, scale_by(sum * factor, sums_exponent));
            }
        }
    }
}

void store_results(uint row0, uint r) {
    vec2 sum = weight[r];
    sum += vec2(subgroupShuffleXor(sum.x, 1), subgroupShuffleXor(sum.y, 1));
    sum += vec2(subgroupShuffleXor(sum.x, 2), subgroupShuffleXor(sum.y, 2));
    vec2 factors = vec2(sum.x == 0.0 ? 0.0 : 1.0 / sum.x, sum.y == 0.0 ? 0.0 : 1.0 / sum.y);
    store_row(row0, r, 0, sum.x, factors.x);
    store_row(row0, r, 1, sum.y, factors.y);
    if (special_from != NO_KEY) {
        store_special(row0 + 16 * r, top[r], factors);
    }
}

void load_q(uint row0) {
    uint row_tiles = (rows + 15) / 16;
    [[unroll]] for (uint r = 0; r < ROW_TILES; r++) { // past the last tile of rows, that one is repeated
        uint row_tile = min(row0 / 16 + r, row_tiles - 1);
        own_q[r] = (key_head * row_tiles + row_tile) * K_CHUNKS * 64 + gl_SubgroupInvocationID;
        [[unroll]] for (uint part = 0; part < Q_PARTS; part++) {
            [[unroll]] for (uint s = 0; s < K_CHUNKS * 2; s++) {
                if (is_held(r, part)) {
                    q_words[q_at(r, part, s)] = fetch_q(r, part, s);
                }
            }
        }
    }
}

void begin(uint row0) {
    uint heads = p.rows / rows, tiles = (p.keys + KEYS - 1) / KEYS;
    k_plane = heads * tiles * K_CHUNKS * 128;
    v_plane = heads * tiles * V_CHUNKS * 128;
    k_at = IN_CHUNKS ? key_head * tiles * K_CHUNKS : key_head * tiles * K_CHUNKS * 128 + gl_SubgroupInvocationID;
    v_at = IN_CHUNKS ? key_head * tiles * V_CHUNKS : key_head * tiles * V_CHUNKS * 128 + gl_SubgroupInvocationID;
    sums_exponent = SPLIT_ZERO;
    special_from = NO_KEY;
    [[unroll]] for (uint r = 0; r < ROW_TILES; r++) {
        top[r] = vec2(LOWEST);
        weight[r] = vec2(0.0);
    }
    [[unroll]] for (uint n = 0; n < ROW_TILES * V_CHUNKS * 4; n++) {
        acc[n] = vec4(0.0);
    }
    load_q(row0);
    if (keys_begin < keys_end) {
        fetch_exponents(tile);
        [[unroll]] for (uint i = 0; i < AHEAD; i++) {
            held[i] = fetch(i);
        }
    }
}

void main() {
    uint row0;
    bool has_rows = find_rows(WAVES * ROW_TILES * 16, row0);
    row0 += gl_SubgroupID * ROW_TILES * 16;
    if (!has_rows || row0 >= rows) {
        return;
    }
    uint length = key_length();
    uint see_all = key_end(length, row0 / p.group); // keys that every row of the subgroup sees
    uint see_any = key_end(length, (min(row0 + ROW_TILES * 16, rows) - 1) / p.group);
    uint own = min(row0 + gl_SubgroupInvocationID % (ROW_TILES * 16), rows - 1);
    uint plain_rows = MASK_KIND == 0 ? is_common(q_exponents[key_head * rows + own]) : 0;
    float unit = p.scale * LOG2_E * exp2_int(-2 * SPLIT_COMMON);
    find_keys(see_any, KEYS);
    tile = keys_begin / KEYS;
    uint end_tile = tile + (keys_end - keys_begin + KEYS - 1) / KEYS;
    last_tile = end_tile - 1;
    begin(row0);
    for (; tile < end_tile; tile++) {
        key_exponent = next_key_exponent;
        value_exponent = next_value_exponent;
        fetch_exponents(min(tile + 1, last_tile));
        score_tile();
        bool plain = subgroupAll((plain_rows & is_common(sums_exponent) & uint((tile + 1) * KEYS <= see_all) &
                                  is_common(key_exponent) & is_common(value_exponent)) != 0);
        float scale = 1.0;
        if (plain) {
            sums_exponent = -SPLIT_COMMON;
        } else {
            scale = finish_tile(tile * KEYS, row0);
        }
        [[unroll]] for (uint i = K_LOADS; i < K_LOADS + AHEAD; i++) { // before the branch, the driver would delay them
            held[i % AHEAD] = fetch(i);
        }
        weigh(0, plain ? unit : 1.0, scale);
        if (ROW_TILES > 1) {
            weigh(SECOND, plain ? unit : 1.0, scale);
        }
        if (!plain) {
            weigh_tile();
        }
        add_values();
    }
    store_results(row0, 0);
    if (ROW_TILES > 1) {
        store_results(row0, SECOND);
    }
}
