// Tiles of keys that sdpa_fragments cannot treat like most: at the edge of what rows see, with a mask, with other
// exponents than the common one, or with numbers that are not finite. A part of sdpa_fragments.comp.
#ifndef ATTENTION_SPECIAL_GLSL
#define ATTENTION_SPECIAL_GLSL

bool has_not_finite(int exponent) { return exponent >= SPLIT_NOT_FINITE / 2 && exponent < 2 * SPLIT_NOT_FINITE; }
int finite_exponent(int n) { return n < SPLIT_NOT_FINITE / 2 ? n : n - SPLIT_NOT_FINITE; }

// The first key of this lane in a pair of columns of scores.
uint key_of(uint j) { return j / 2 * 16 + 4 * t() + j % 2 * 2; }

// The final score of a key from a product of finite parts, as finish_score has it, but without that one's loop.
float finite_score(Row row, uint key, float s, int exponent) {
    float bias = key < row.end ? key_bias(row.mask_from, key) : LOWEST;
    return bias <= LOWEST ? LOWEST : scale_by(s, max(row.q_exponent + exponent, -252)) * (p.scale * LOG2_E) + bias;
}

void finish_scores(inout vec4 s, uint j, Row first, Row second, uint key0) {
    uint c = key_of(j);
    ivec2 exponents = ivec2(subgroupShuffle(key_exponent, c), subgroupShuffle(key_exponent, c + 1));
    s = vec4(finite_score(first, key0 + c, s.x, exponents.x), finite_score(first, key0 + c + 1, s.y, exponents.y),
             finite_score(second, key0 + c, s.z, exponents.x), finite_score(second, key0 + c + 1, s.w, exponents.y));
}

// Replaces the scores of rows and keys that are not finite.
void replace_scores(uint key0, uint row0) {
    for (uint n = 0; n < HIDDEN(ROW_TILES * KEY_TILES * 4, p.group); n++) {
        uint c = key_of(n / 4 % KEY_TILES) + n % 2, r = n / 4 / KEY_TILES;
        Row row = row_of(min(row0 + 16 * r + 2 * g() + n / 2 % 2, rows - 1), key_length());
        int exponent = subgroupShuffle(key_exponent, c);
        bool is = row.q_exponent + exponent > SPLIT_NOT_FINITE / 2;
        float s = is ? finish_score(row, key0 + c, 0.0, exponent) : 0.0;
        [[unroll]] for (uint j = 0; j < ROW_TILES * KEY_TILES; j++) {
            bvec4 element = equal(uvec4(n), j * 4 + uvec4(0, 1, 2, 3));
            scores[j] = is ? mix(scores[j], vec4(s), element) : scores[j];
        }
    }
}

// Gives weights the exponents of their values.
void weigh_values(inout vec4 s, uint j, float power) {
    uint c = key_of(j);
    s *= vec2(subgroupShuffle(power, c), subgroupShuffle(power, c + 1)).xyxy;
}

// Turns products of a tile of rows into scores. Returns the highest exponent of its rows.
int finish_rows(uint key0, uint row0, uint r) {
    uint length = key_length();
    Row first = row_of(min(row0 + 16 * r + 2 * g(), rows - 1), length);
    Row second = row_of(min(row0 + 16 * r + 2 * g() + 1, rows - 1), length);
    finish_scores(scores[r * KEY_TILES], 0, first, second, key0);
    finish_scores(scores[r * KEY_TILES + 1], 1, first, second, key0);
    finish_scores(scores[r * KEY_TILES + 2], 2, first, second, key0);
    finish_scores(scores[r * KEY_TILES + 3], 3, first, second, key0);
    return max(first.q_exponent, second.q_exponent);
}

// Turns products of any tile into scores. Returns by what the sums must be multiplied for their new unit.
float finish_tile(uint key0, uint row0) {
    int highest = finish_rows(key0, row0, 0);
    if (ROW_TILES > 1) {
        highest = max(highest, finish_rows(key0, row0, SECOND));
    }
    if (subgroupAny(max(key_exponent, highest) > SPLIT_NOT_FINITE / 2)) {
        replace_scores(key0, row0);
    }
    if (has_not_finite(value_exponent) || has_not_finite(key_exponent)) {
        special_from = min(special_from, key0 + gl_SubgroupInvocationID);
    }
    special_from = subgroupMin(special_from);
    int most = subgroupMax(max(finite_exponent(value_exponent), sums_exponent));
    float scale = power_or_zero(sums_exponent - most);
    sums_exponent = most;
    return scale;
}

void weigh_rows(uint r, float power) {
    weigh_values(scores[r * KEY_TILES], 0, power);
    weigh_values(scores[r * KEY_TILES + 1], 1, power);
    weigh_values(scores[r * KEY_TILES + 2], 2, power);
    weigh_values(scores[r * KEY_TILES + 3], 3, power);
}

void weigh_tile() {
    float power = power_or_zero(finite_exponent(value_exponent) - sums_exponent);
    weigh_rows(0, power);
    if (ROW_TILES > 1) {
        weigh_rows(SECOND, power);
    }
}

// Adds what values that are not finite contribute to the elements of this lane. So far, elements are finite, or all of
// a row are NaNs. row0: the first row of the tile; highest: the highest scores of this lane's two.
void store_special(uint row0, vec2 highest, vec2 factors) {
    for (uint i = 0; i < HIDDEN(V_CHUNKS * 16, p.group); i++) {
        bool second = i % 2 != 0;
        uint own = row0 + 2 * g() + i % 2, e = i / 16 * 32 + 8 * t() + i / 2 % 8;
        Row row = row_of(min(own, rows - 1), key_length());
        float factor = second ? factors.y : factors.x;
        if (own < rows && e < p.dv && special_from < row.end && !is_nan(factor)) {
            float v = plain_values(row, second ? highest.y : highest.x, e);
            if (v != 0.0) {
                y_store(row.to + e, v * (factor * exp2(WEIGHT_EXPONENT)));
            }
        }
    }
}

#endif
