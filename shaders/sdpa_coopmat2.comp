// Attention of many queries like sdpa_coopmat, but with scores and weights in
// registers (coopmat2.glsl). WAVES subgroups of 16 rows share tiles of KEYS keys
// in shared memory; the next keys are loaded while scores are computed, and the
// next values while values are added.
//
// The weights of tiles at an edge, with a mask, or with other exponents than the
// common one are computed differently. A subgroup skips tiles that its rows do
// not see.
//
// variants: narrow_khr_nv2
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require

#include "attention_matrices.glsl"
#include "coopmat2.glsl"

layout(constant_id = 14) const uint W_PARTS = 2; // of the softmax's weights
layout(constant_id = 15) const uint WAVES = 8;
layout(constant_id = 16) const uint KEYS = 32; // at a time

const uint TILE = WAVES * FRAGMENT;
const uint THREADS = WAVES * LANES;
const uint TILES = KEYS / FRAGMENT;
const uint K_RUNS = K_STEPS * 2; // of 8 elements, in a head
const uint V_RUNS = V_STEPS * 2;
const uint K_PITCH = K_RUNS + 1; // odd, to avoid bank conflicts
const uint V_PITCH = V_RUNS + 1;
const uint K_ITEMS = K_PARTS * KEYS * K_RUNS;
const uint V_ITEMS = V_PARTS * KEYS * V_RUNS;
const uint K_TURNS = (K_ITEMS + THREADS - 1) / THREADS;
const uint V_TURNS = (V_ITEMS + THREADS - 1) / THREADS;
const uint V_FROM = K_PARTS * KEYS * K_PITCH;
const uint OPERANDS = V_FROM + V_PARTS * KEYS * V_PITCH;
const uint STAGE_PITCH = FRAGMENT / 4 + 1;
const uint STAGE = FRAGMENT * STAGE_PITCH; // a subgroup's, for a matrix of results
const float WEIGHT_EXPONENT = 14.0;        // weights are up to 2^14 in float16

shared uvec4 tile[OPERANDS > WAVES * STAGE ? OPERANDS : WAVES * STAGE]; // of k and of v; at the end, results
shared int key_exponents[KEYS];
shared int value_exponents[KEYS];

uvec4 next_k[K_TURNS];
uvec4 next_v[V_TURNS];
int next_exponents[2];

MATRIX_A q_matrix[2][K_STEPS];
MATRIX_C acc[V_STEPS];
MATRIX_C top;         // the highest score of each row so far, in each element of it
MATRIX_C weight;      // sums of weights, to be added up for each row
int sums_exponent;    // acc is in units of 2^sums_exponent
bool special_values;  // some value is not finite

uint plane, end; // rows of a part; one past the last key that any row sees
uint length, wave_row;

void load_k(uint key0) {
    [[unroll]] for (uint t = 0; t < K_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint key = min(key0 + i / K_RUNS % KEYS, end - 1);
        next_k[t] = k_parts[(min(i / (K_RUNS * KEYS), K_PARTS - 1) * plane + first_key + key) * K_RUNS + i % K_RUNS];
    }
    uint key = first_key + min(key0 + gl_LocalInvocationIndex % KEYS, end - 1);
    next_exponents[0] = k_exponents[key];
    next_exponents[1] = v_exponents[key];
}

void store_k() {
    [[unroll]] for (uint t = 0; t < K_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (K_ITEMS % THREADS == 0 || i < K_ITEMS) {
            tile[i / K_RUNS * K_PITCH + i % K_RUNS] = next_k[t];
        }
    }
    if (gl_LocalInvocationIndex < KEYS) {
        key_exponents[gl_LocalInvocationIndex] = next_exponents[0];
        value_exponents[gl_LocalInvocationIndex] = next_exponents[1];
    }
}

void load_v(uint key0) {
    [[unroll]] for (uint t = 0; t < V_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint key = min(key0 + i / V_RUNS % KEYS, end - 1);
        next_v[t] = v_parts[(min(i / (V_RUNS * KEYS), V_PARTS - 1) * plane + first_key + key) * V_RUNS + i % V_RUNS];
    }
}

void store_v() {
    [[unroll]] for (uint t = 0; t < V_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (V_ITEMS % THREADS == 0 || i < V_ITEMS) {
            tile[V_FROM + i / V_RUNS * V_PITCH + i % V_RUNS] = next_v[t];
        }
    }
}

MATRIX_C scores[TILES];

// The subgroup's 16 by KEYS products of parts.
void score_tile() {
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        scores[j] = MATRIX_C(0.0);
    }
    [[unroll]] for (uint e = 0; e < K_STEPS; e++) {
        MATRIX_B b[TILES];
        [[unroll]] for (uint j = 0; j < TILES; j++) {
            matrix_load_columns(b[j], tile, j * FRAGMENT * K_PITCH + e * 2, K_PITCH);
        }
        [[unroll]] for (uint i = 0; i < Q_PARTS; i++) {
            [[unroll]] for (uint j = 0; j < TILES; j++) {
                scores[j] = matrix_mul_add(q_matrix[i][e], b[j], scores[j]);
            }
        }
        if (K_PARTS > 1) {
            [[unroll]] for (uint j = 0; j < TILES; j++) {
                matrix_load_columns(b[j], tile, (KEYS + j * FRAGMENT) * K_PITCH + e * 2, K_PITCH);
            }
            [[unroll]] for (uint j = 0; j < TILES; j++) {
                scores[j] = matrix_mul_add(q_matrix[0][e], b[j], scores[j]);
            }
        }
    }
}

// The score of a key in any tile, whose first key is key0.
float special_score(const in uint r, const in uint c, const in float s, const in uint key0) {
    Row row = row_of(min(wave_row + r, rows - 1), length);
    return finish_score(row, key0 + c, s, key_exponents[(key0 + c) % KEYS]);
}

// A weight with the exponent of its value.
float special_weight(const in uint r, const in uint c, const in float w, const in uint key0) {
    int n = value_exponents[(key0 + c) % KEYS];
    return w * power_or_zero((n < SPLIT_NOT_FINITE / 2 ? n : n - SPLIT_NOT_FINITE) - sums_exponent);
}

// Updates the rows' highest scores by those of the tile, and rescales the sums.
void raise_top(float scale) {
    MATRIX_C most = scores[0];
    [[unroll]] for (uint j = 1; j < TILES; j++) {
        [[unroll]] for (uint e = 0; e < most.length(); e++) {
            most[e] = max(most[e], scores[j][e]);
        }
    }
    MATRIX_C highest;
    matrix_row_max(highest, most);
    bool same = scale == 1.0;
    MATRIX_C keep;
    [[unroll]] for (uint e = 0; e < top.length(); e++) {
        float high = max(top[e], highest[e]);
        same = same && high == top[e];
        keep[e] = exp2(top[e] - high);
        top[e] = high;
    }
    if (subgroupAll(same)) {
        return;
    }
    [[unroll]] for (uint e = 0; e < top.length(); e++) {
        weight[e] *= keep[e];
        keep[e] *= scale;
    }
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        [[unroll]] for (uint e = 0; e < acc[t].length(); e++) {
            acc[t][e] *= keep[e];
        }
    }
}

// Turns products into weights relative to the highest score, whose weight is 2^14.
void weigh_plain(float unit) {
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        [[unroll]] for (uint e = 0; e < top.length(); e++) {
            scores[j][e] *= unit;
        }
    }
    raise_top(1.0);
    sums_exponent = -SPLIT_COMMON;
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        [[unroll]] for (uint e = 0; e < top.length(); e++) {
            scores[j][e] = exp2(scores[j][e] - (top[e] - WEIGHT_EXPONENT));
            weight[e] += scores[j][e];
        }
    }
}

void weigh_special(uint key0) {
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        matrix_map(scores[j], special_score, key0 + j * FRAGMENT);
    }
    int most = SPLIT_ZERO;
    for (uint c = 0; c < KEYS; c++) {
        int n = value_exponents[c];
        special_values = special_values || n >= SPLIT_NOT_FINITE / 2;
        most = max(most, n < SPLIT_NOT_FINITE / 2 ? n : n - SPLIT_NOT_FINITE);
    }
    most = max(most, sums_exponent);
    raise_top(power_or_zero(sums_exponent - most));
    sums_exponent = most;
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        [[unroll]] for (uint e = 0; e < top.length(); e++) {
            float s = scores[j][e];
            scores[j][e] = s == LOWEST ? 0.0 : exp2(s - (top[e] - WEIGHT_EXPONENT));
            weight[e] += scores[j][e];
        }
        matrix_map(scores[j], special_weight, key0 + j * FRAGMENT);
    }
}

// Adds the tile's weighted values.
void add_values() {
    MATRIX_A w[2][TILES];
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        if (W_PARTS > 1) {
            MATRIX_C high;
            [[unroll]] for (uint e = 0; e < high.length(); e++) {
                high[e] = high_part(scores[j][e]);
                scores[j][e] -= high[e];
            }
            w[0][j] = matrix_operand(high);
            w[1][j] = matrix_operand(scores[j]);
        } else {
            w[0][j] = matrix_operand(scores[j]);
        }
    }
    [[unroll]] for (uint j = 0; j < TILES; j++) {
        [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
            MATRIX_B b;
            matrix_load(b, tile, V_FROM + j * FRAGMENT * V_PITCH + t * 2, V_PITCH);
            [[unroll]] for (uint i = 0; i < W_PARTS; i++) {
                acc[t] = matrix_mul_add(w[i][j], b, acc[t]);
            }
            if (V_PARTS > 1) {
                matrix_load(b, tile, V_FROM + (KEYS + j * FRAGMENT) * V_PITCH + t * 2, V_PITCH);
                acc[t] = matrix_mul_add(w[0][j], b, acc[t]);
            }
        }
    }
}

uint stage_from() { return gl_SubgroupID * STAGE; }
float staged(uint row, uint c) { return uintBitsToFloat(tile[stage_from() + row * STAGE_PITCH + c / 4][c % 4]); }

void store_results() {
    uint own = gl_SubgroupInvocationID % FRAGMENT;
    uint share = FRAGMENT * FRAGMENT / LANES, c0 = gl_SubgroupInvocationID / FRAGMENT * share;
    Row row = row_of(min(wave_row + own, rows - 1), length);
    barrier();
    matrix_store(top, tile, stage_from(), STAGE_PITCH);
    subgroupBarrier();
    float highest = staged(own, 0);
    subgroupBarrier();
    matrix_store(weight, tile, stage_from(), STAGE_PITCH);
    subgroupBarrier();
    float sum = 0.0;
    [[unroll]] for (uint c = 0; c < FRAGMENT; c++) {
        sum += staged(own, c);
    }
    float factor = sum == 0.0 ? 0.0 : 1.0 / sum;
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        subgroupBarrier();
        matrix_store(acc[t], tile, stage_from(), STAGE_PITCH);
        subgroupBarrier();
        for (uint c = c0; c < c0 + share; c++) {
            uint e = t * FRAGMENT + c;
            if (wave_row + own < rows && e < p.dv) {
                float v = scale_by(staged(own, c) * factor, sums_exponent);
                if (special_values) {
                    v += plain_values(row, highest, e) * (factor * exp2(WEIGHT_EXPONENT));
                }
                y_store(row.to + e, v);
            }
        }
    }
}

// Whether all exponents are the common one or that of zeros.
bool has_common(int exponent) { return exponent == -SPLIT_COMMON || exponent == SPLIT_ZERO; }
bool has_common_tile() {
    bool is = true;
    [[unroll]] for (uint c = 0; c < KEYS; c += LANES) {
        uint i = (c + gl_SubgroupInvocationID) % KEYS;
        is = is && has_common(key_exponents[i]) && has_common(value_exponents[i]);
    }
    return subgroupAll(is);
}

void main() {
    uint row0;
    if (!find_rows(TILE, row0)) {
        return;
    }
    length = key_length();
    plane = p.rows / rows * p.keys;
    wave_row = row0 + gl_SubgroupID * FRAGMENT;
    end = key_end(length, (min(row0 + TILE, rows) - 1) / p.group);
    uint see_all = key_end(length, min(wave_row, rows - 1) / p.group); // keys that every row of the subgroup sees
    uint see_any = wave_row < rows ? key_end(length, (min(wave_row + FRAGMENT, rows) - 1) / p.group) : 0u;
    bool plain_rows =
        MASK_KIND == 0 &&
        subgroupAll(has_common(q_exponents[key_head * rows + min(wave_row + gl_SubgroupInvocationID % FRAGMENT, rows - 1)]));
    float unit = p.scale * LOG2_E * exp2_int(-2 * SPLIT_COMMON);
    top = MATRIX_C(LOWEST);
    weight = MATRIX_C(0.0);
    sums_exponent = SPLIT_ZERO;
    special_values = false;
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        acc[t] = MATRIX_C(0.0);
    }
    [[unroll]] for (uint e = 0; e < K_STEPS; e++) {
        matrix_load(q_matrix[0][e], q_parts, (key_head * rows + wave_row) * K_RUNS + e * 2, K_RUNS);
        if (Q_PARTS > 1) {
            matrix_load(q_matrix[1][e], q_parts, (p.rows + key_head * rows + wave_row) * K_RUNS + e * 2, K_RUNS);
        }
    }
    if (end > 0) {
        load_k(0);
        store_k();
        load_v(0);
    }
    for (uint key0 = 0; key0 < end; key0 += KEYS) {
        barrier(); // keys have been stored, and the values of the previous tile read
        store_v();
        bool more = key0 + KEYS < end;
        if (more) {
            load_k(key0 + KEYS);
        }
        bool sees = key0 < see_any;
        if (sees) {
            score_tile();
            bool plain = plain_rows && key0 + KEYS <= see_all && has_common_tile() &&
                         (sums_exponent == SPLIT_ZERO || sums_exponent == -SPLIT_COMMON);
            if (plain) {
                weigh_plain(unit);
            } else {
                weigh_special(key0);
            }
        }
        barrier(); // values have been stored, and the keys read
        if (more) {
            store_k();
            load_v(key0 + KEYS);
        }
        if (sees) {
            add_values();
        }
    }
    store_results();
}
