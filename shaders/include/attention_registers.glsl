// Attention of tiles of 16 rows for each subgroup over tiles of KEYS keys in shared memory, where scores and weights stay
// in registers (coopmat2.glsl).
//
// The weights of tiles at an edge, with a mask, or with other exponents than the common one are computed differently. A
// row's result does not depend on that, nor on the other rows of its tile.
//
// Before the include: coopmat.glsl and float16_parts.glsl; LOG2_E and LOWEST; the constants Q_PARTS, K_PARTS, V_PARTS,
// W_PARTS, K_STEPS, V_STEPS, WAVES, KEYS and LANES; LEAST_TILE, which tile has at least. Behind it: special_score.
#ifndef ATTENTION_REGISTERS_GLSL
#define ATTENTION_REGISTERS_GLSL

#include "coopmat2.glsl"

const uint TILE = WAVES * FRAGMENT;
const uint THREADS = WAVES * LANES;
const uint TILES = KEYS / FRAGMENT;
const uint K_RUNS = K_STEPS * 2; // of 8 elements, in a head
const uint V_RUNS = V_STEPS * 2;
const uint K_PITCH = K_RUNS + 1; // odd, to avoid bank conflicts
const uint V_PITCH = V_RUNS + 1;
const uint V_FROM = K_PARTS * KEYS * K_PITCH;
const uint OPERANDS = V_FROM + V_PARTS * KEYS * V_PITCH;
const uint STAGE_PITCH = FRAGMENT / 4 + 1;
const uint STAGE = FRAGMENT * STAGE_PITCH; // a subgroup's, for a matrix of results
const float WEIGHT_EXPONENT = 14.0;        // weights are up to 2^14 in float16

const uint NEEDED = OPERANDS > WAVES * STAGE ? OPERANDS : WAVES * STAGE;
shared uvec4 tile[NEEDED > LEAST_TILE ? NEEDED : LEAST_TILE]; // of k and of v; at the end, results
shared int key_exponents[KEYS];
shared int value_exponents[KEYS];

MATRIX_A q_matrix[2][K_STEPS];
MATRIX_C acc[V_STEPS];
MATRIX_C top;         // the highest score of each row so far, in each element of it
MATRIX_C weight;      // sums of weights, to be added up for each row
int sums_exponent;    // acc is in units of 2^sums_exponent
uint special_from;    // the first key that has an element that is not finite, or whose value has one

const uint NO_KEY = 0xffffffffu;

bool has_not_finite(int exponent) { return exponent >= SPLIT_NOT_FINITE / 2 && exponent < 2 * SPLIT_NOT_FINITE; }

// The score of a key in any tile, from the product of parts; r counts the subgroup's rows, and key0 is the first key of
// column 0.
float special_score(const in uint r, const in uint c, const in float s, const in uint key0);

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
        if (has_not_finite(n) || has_not_finite(key_exponents[c])) {
            special_from = min(special_from, key0 + c);
        }
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

#endif
