// Attention of 64 queries per workgroup by cooperative matrices, for prompts: 16
// rows for each subgroup, and 32 keys at a time. The query heads that read one
// key head are rows of the same tile, adjacent at the same step.
//
// The weights of the softmax are two float16 parts as well; products of two second parts are below float32's precision
// and left out. The exponent of a value is applied to its key's weight.
//
// variants: narrow_khr narrow_nv
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require

#include "attention_matrices.glsl"

const uint WAVES = 4;
const uint TILE = WAVES * FRAGMENT;
const uint KEYS = 32; // at a time
const uint THREADS = WAVES * LANES;
const uint K_RUNS = K_STEPS * 2; // of 8 elements, in a head
const uint V_RUNS = V_STEPS * 2;
const uint PITCH = (K_RUNS > V_RUNS ? K_RUNS : V_RUNS) + 1; // odd, to avoid bank conflicts
const uint K_TURNS = (K_PARTS * KEYS * K_RUNS + THREADS - 1) / THREADS;
const uint V_TURNS = (V_PARTS * KEYS * V_RUNS + THREADS - 1) / THREADS;
const uint SHARE = FRAGMENT * KEYS / LANES; // scores of a lane: in one row
const uint ROW_PITCH = KEYS / 4 + 1;        // quads of a row of scores
const int WEIGHT_EXPONENT = 14;             // weights are below 2^14 in float16

shared uvec4 tile[2 * KEYS * PITCH];                // of k, then of v
shared uvec4 scores[WAVES * FRAGMENT * ROW_PITCH];  // then the two parts of the weights, in the same place
shared float factors[WAVES * FRAGMENT];             // of a row's sums so far; at the end, of its result
shared int key_exponents[KEYS];
shared int value_exponents[KEYS];

uvec4 next_k[K_TURNS];
uvec4 next_v[V_TURNS];
int next_exponents;

MATRIX_A q_matrix[2][K_STEPS];
MATRIX_C acc[V_STEPS];

// A lane's state of its row's sums.
struct Sums {
    float highest;
    float weight;      // of the lane's keys only
    int sums_exponent; // acc is in units of 2^sums_exponent
    bool plain_values; // some value is not finite
};

void load_k(uint key0, uint end, uint plane) {
    [[unroll]] for (uint t = 0; t < K_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint key = min(key0 + i / K_RUNS % KEYS, end - 1);
        next_k[t] = k_parts[(min(i / (K_RUNS * KEYS), K_PARTS - 1) * plane + first_key + key) * K_RUNS + i % K_RUNS];
    }
    uint key = first_key + min(key0 + gl_LocalInvocationIndex % KEYS, end - 1);
    next_exponents = gl_LocalInvocationIndex < KEYS ? k_exponents[key] : v_exponents[key];
}

void load_v(uint key0, uint end, uint plane) {
    [[unroll]] for (uint t = 0; t < V_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        uint key = min(key0 + i / V_RUNS % KEYS, end - 1);
        next_v[t] = v_parts[(min(i / (V_RUNS * KEYS), V_PARTS - 1) * plane + first_key + key) * V_RUNS + i % V_RUNS];
    }
}

void store_k() {
    [[unroll]] for (uint t = 0; t < K_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < K_PARTS * KEYS * K_RUNS) {
            tile[i / K_RUNS * PITCH + i % K_RUNS] = next_k[t];
        }
    }
    if (gl_LocalInvocationIndex < KEYS) {
        key_exponents[gl_LocalInvocationIndex] = next_exponents;
    } else if (gl_LocalInvocationIndex < 2 * KEYS) {
        value_exponents[gl_LocalInvocationIndex - KEYS] = next_exponents;
    }
}

void store_v() {
    [[unroll]] for (uint t = 0; t < V_TURNS; t++) {
        uint i = t * THREADS + gl_LocalInvocationIndex;
        if (i < V_PARTS * KEYS * V_RUNS) {
            tile[i / V_RUNS * PITCH + i % V_RUNS] = next_v[t];
        }
    }
}

uint wave_scores() { return gl_SubgroupID * FRAGMENT * ROW_PITCH; }

// The subgroup's 16 by 32 scores, without exponents.
void score_tile() {
    [[unroll]] for (uint j = 0; j < KEYS / FRAGMENT; j++) {
        MATRIX_C s = MATRIX_C(0.0);
        [[unroll]] for (uint e = 0; e < K_STEPS; e++) {
            MATRIX_B b;
            matrix_load_columns(b, tile, j * FRAGMENT * PITCH + e * 2, PITCH);
            s = matrix_mul_add(q_matrix[0][e], b, s);
            if (Q_PARTS > 1) {
                s = matrix_mul_add(q_matrix[1][e], b, s);
            }
            if (K_PARTS > 1) {
                matrix_load_columns(b, tile, (KEYS + j * FRAGMENT) * PITCH + e * 2, PITCH);
                s = matrix_mul_add(q_matrix[0][e], b, s);
            }
        }
        matrix_store(s, scores, wave_scores() + j * (FRAGMENT / 4), ROW_PITCH);
    }
}

// Turns the scores into weights, in two parts, and factors for the sums so far.
void weigh_tile(Row row, inout Sums sums, uint key0) {
    uint at = wave_scores() + gl_SubgroupInvocationID % FRAGMENT * ROW_PITCH;
    uint part = gl_SubgroupInvocationID / FRAGMENT; // of the row
    float s[SHARE];
    float top = sums.highest;
    [[unroll]] for (uint i = 0; i < SHARE / 4; i++) {
        uvec4 quad = scores[at + part * (SHARE / 4) + i];
        [[unroll]] for (uint c = 0; c < 4; c++) {
            uint j = part * SHARE + i * 4 + c;
            s[i * 4 + c] = finish_score(row, key0 + j, uintBitsToFloat(quad[c]), key_exponents[j]);
            top = max(top, s[i * 4 + c]);
        }
    }
    [[unroll]] for (uint m = FRAGMENT; m < LANES; m *= 2) {
        top = max(top, subgroupShuffleXor(top, m));
    }
    int exponent = value_exponents[gl_SubgroupInvocationID % KEYS];
    bool finite = exponent < SPLIT_NOT_FINITE / 2;
    sums.plain_values = sums.plain_values || subgroupAny(!finite);
    int sums_exponent = max(sums.sums_exponent, subgroupMax(finite ? exponent : exponent - SPLIT_NOT_FINITE));
    float keep = exp2(sums.highest - top);
    sums.weight *= keep;
    if (gl_SubgroupInvocationID < FRAGMENT) {
        factors[gl_SubgroupID * FRAGMENT + gl_SubgroupInvocationID] =
            keep * power_or_zero(sums.sums_exponent - sums_exponent);
    }
    sums.highest = top;
    sums.sums_exponent = sums_exponent;
    subgroupBarrier(); // all scores have been read
    [[unroll]] for (uint i = 0; i < SHARE / 8; i++) {
        vec4 w[2];
        [[unroll]] for (uint c = 0; c < 8; c++) {
            float e = s[i * 8 + c] == LOWEST ? 0.0 : exp2(s[i * 8 + c] - top);
            sums.weight += e;
            int n = value_exponents[part * SHARE + i * 8 + c];
            n = (n < SPLIT_NOT_FINITE / 2 ? n : n - SPLIT_NOT_FINITE) - sums_exponent + WEIGHT_EXPONENT;
            w[c >> 2][c & 3u] = e * power_or_zero(n);
        }
        vec4 a = high_part4(w[0]);
        vec4 b = high_part4(w[1]);
        uint to = at + part * (SHARE / 8) + i;
        scores[to] = pack_run(a, b);
        scores[to + KEYS / 8] = pack_run(w[0] - a, w[1] - b);
    }
    subgroupBarrier();
}

// Adds the tile's weighted values.
void add_values() {
    MATRIX_C keep;
    matrix_load_columns(keep, factors, gl_SubgroupID * FRAGMENT, 0);
    MATRIX_A w[2][KEYS / FRAGMENT];
    [[unroll]] for (uint j = 0; j < KEYS / FRAGMENT; j++) {
        matrix_load(w[0][j], scores, wave_scores() + j * 2, ROW_PITCH);
        matrix_load(w[1][j], scores, wave_scores() + KEYS / 8 + j * 2, ROW_PITCH);
    }
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        [[unroll]] for (uint e = 0; e < acc[t].length(); e++) {
            acc[t][e] *= keep[e];
        }
        [[unroll]] for (uint j = 0; j < KEYS / FRAGMENT; j++) {
            MATRIX_B b;
            matrix_load(b, tile, j * FRAGMENT * PITCH + t * 2, PITCH);
            acc[t] = matrix_mul_add(w[0][j], b, acc[t]);
            acc[t] = matrix_mul_add(w[1][j], b, acc[t]);
            if (V_PARTS > 1) {
                matrix_load(b, tile, (KEYS + j * FRAGMENT) * PITCH + t * 2, PITCH);
                acc[t] = matrix_mul_add(w[0][j], b, acc[t]);
            }
        }
    }
}

void store_tile(Row row, Sums sums, bool inside) {
    float weight = sums.weight;
    [[unroll]] for (uint m = FRAGMENT; m < LANES; m *= 2) {
        weight += subgroupShuffleXor(weight, m);
    }
    float factor = weight == 0.0 ? 0.0 : 1.0 / weight;
    uint at = wave_scores() + gl_SubgroupInvocationID % FRAGMENT * ROW_PITCH;
    uint part = gl_SubgroupInvocationID / FRAGMENT;
    if (HAS_RANGES != 0 && inside && part == 0) {
        store_part(row, sums.highest, weight);
    }
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        subgroupBarrier();
        matrix_store(acc[t], scores, wave_scores(), ROW_PITCH);
        subgroupBarrier();
        for (uint c = part * (FRAGMENT * FRAGMENT / LANES); c < (part + 1) * (FRAGMENT * FRAGMENT / LANES); c++) {
            uint e = t * FRAGMENT + c;
            if (inside && e < p.dv) {
                float sum = uintBitsToFloat(scores[at + c / 4][c & 3u]);
                sum = scale_by(sum * factor, sums.sums_exponent - WEIGHT_EXPONENT);
                if (sums.plain_values) {
                    sum += plain_values(row, sums.highest, e) * factor;
                }
                y_store(row.to + e, sum);
            }
        }
    }
}

void main() {
    uint row0;
    if (!find_rows(TILE, row0)) {
        return;
    }
    uint length = key_length();
    uint own = row0 + gl_SubgroupID * FRAGMENT + gl_SubgroupInvocationID % FRAGMENT;
    Row row = row_of(min(own, rows - 1), length);
    Sums sums = Sums(LOWEST, 0.0, SPLIT_ZERO, false);
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        acc[t] = MATRIX_C(0.0);
    }
    uint q_row = key_head * rows + row0 + gl_SubgroupID * FRAGMENT;
    [[unroll]] for (uint e = 0; e < K_STEPS; e++) {
        matrix_load(q_matrix[0][e], q_parts, q_row * K_RUNS + e * 2, K_RUNS);
        if (Q_PARTS > 1) {
            matrix_load(q_matrix[1][e], q_parts, (p.rows + q_row) * K_RUNS + e * 2, K_RUNS);
        }
    }
    uint plane = p.rows / rows * p.keys;
    uint end = key_end(length, (min(row0 + TILE, rows) - 1) / p.group); // of the last row, which sees most
    find_keys(end, KEYS);
    end = keys_end;
    if (keys_begin < end) {
        load_k(keys_begin, end, plane);
    }
    for (uint key0 = keys_begin; key0 < end; key0 += KEYS) {
        barrier();
        store_k();
        barrier();
        load_v(key0, end, plane);
        score_tile();
        barrier();
        store_v();
        barrier();
        if (key0 + KEYS < end) {
            load_k(key0 + KEYS, end, plane);
        }
        weigh_tile(row, sums, key0);
        add_values();
    }
    store_tile(row, sums, own < rows);
}
