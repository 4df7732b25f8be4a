// Attention of many queries like sdpa_coopmat, but with scores and weights in
// registers (coopmat2.glsl). WAVES subgroups of 16 rows share tiles of KEYS keys
// in shared memory; the next keys are loaded while scores are computed, and the
// next values while values are added.
// A subgroup skips tiles that its rows do not see.
//
// variants: narrow_khr_nv2
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require

#include "attention_matrices.glsl"

layout(constant_id = 14) const uint W_PARTS = 2; // of the softmax's weights
layout(constant_id = 15) const uint WAVES = 8;
layout(constant_id = 16) const uint KEYS = 32; // at a time

#include "attention_registers.glsl"

const uint K_ITEMS = K_PARTS * KEYS * K_RUNS;
const uint V_ITEMS = V_PARTS * KEYS * V_RUNS;
const uint K_TURNS = (K_ITEMS + THREADS - 1) / THREADS;
const uint V_TURNS = (V_ITEMS + THREADS - 1) / THREADS;

uvec4 next_k[K_TURNS];
uvec4 next_v[V_TURNS];
int next_exponents[2];

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

float special_score(const in uint r, const in uint c, const in float s, const in uint key0) {
    Row row = row_of(min(wave_row + r, rows - 1), length);
    return finish_score(row, key0 + c, s, key_exponents[(key0 + c) % KEYS]);
}

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
                if (special_from < row.end) {
                    v += plain_values(row, highest, e) * (factor * exp2(WEIGHT_EXPONENT));
                }
                y_store(row.to + e, v);
            }
        }
    }
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
    special_from = NO_KEY;
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
