// Attention over a range of keys in pages of 8-bit codes, by matrices of float16 that lanes make in their registers
// (fragments.glsl). A slot, which is a subgroup, takes 16 keys of a page at a time, for all query heads of its
// workgroup. With g = lane / 4 and t = lane % 4, a lane has:
//
//   of queries  elements 8t to 8t + 7 of every 32 of head g % HEADS, in two parts: rows g and g + 8 of matrices
//   of keys     the same elements of keys g and g + 8: column g of two matrices
//   of scores   those of its head and keys 2t, 2t + 1, 2t + 8 and 2t + 9
//   of values   elements 4g to 4g + 3 of every 32 of these keys' values: rows g and g + 8 of two matrices
//   of results  these elements, of columns 2t and 2t + 1. Column c is head c % HEADS, by the high parts of weights in
//               the first HEADS columns and by the low ones in the next. Further ones repeat them.
//
// So the scores of 16 keys become an operand of products with values without leaving the lane.
//
// A code less CACHE_ZERO is exact in float16, and the sums are floats. Scales of keys are applied to sums of 32
// products, scales of values to the weights. A weight times the scale of its values is off by up to 2^-22 of itself, or
// by 2^-39 of the power of two above the largest scale that the slot has met, whichever is more.
//
// Before the include: the constants KEY_SPEC (GROUPS, HEADS, PAGE, KEYS), SLOT_SPEC, NEW_KEYS (whether a key may be in
// no page yet) and VALUES_AHEAD (whether values are loaded a batch ahead, as keys are); table[]; the push constants p,
// parts[], arrivals[], y_store, SEQUENCE_OF and LENGTH_OF, as for paged_ranges.glsl. After the include: what
// paged_stage.glsl asks for; query_quad, a quad of a head of q times p.scale and LOG2_E.
#ifndef PAGED_FRAGMENTS_GLSL
#define PAGED_FRAGMENTS_GLSL

#include "fragments.glsl"
#include "float16_parts.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require

layout(constant_id = KEY_SPEC) const uint GROUPS = 4;     // of CACHE_GROUP elements of a head: 2 or 4
layout(constant_id = KEY_SPEC + 1) const uint HEADS = 4;  // 1, 2 or 4
layout(constant_id = KEY_SPEC + 2) const uint PAGE = 64;  // tokens
layout(constant_id = KEY_SPEC + 3) const uint KEYS = 256; // for which a row has a range

const uint BATCH = 16; // keys, which are in one page
const uint STORED = HEADS;
const uint DV_CHUNK = GROUPS * CACHE_GROUP; // elements of an output row
#define VALUE_ELEMENTS DV_CHUNK
const bool SHARED_SCALES = true;
#include "paged_ranges.glsl"

vec4 query_quad(uint head, uint quad);

uint g() { return gl_SubgroupInvocationID / 4; }
uint t() { return gl_SubgroupInvocationID % 4; }
uint own_head() { return g() % HEADS; }

// The place in a batch of key i of the four whose scores the lane has.
uint key_of(uint i) { return 8 * (i >> 1) + 2 * t() + (i & 1u); }

#include "paged_stage.glsl"

const int WEIGHT_EXPONENT = 14; // weights are up to 2^14 in float16,
const int QUERY_EXPONENT = 14;  // as are elements of q
const int LEAST_EXPONENT = -100;

shared uvec4 q_words[2 * GROUPS * 16]; // operands by lane % 16: lanes l and l + 16 have the same ones, in every slot
float q_unit;                          // a product of them times a scale is that many units of a score
float top, sum;                        // of this lane's head: the highest score so far; the sum of the lane's weights
vec4 columns[2 * GROUPS];              // sums of weighted values, in units of 2^(sums_exponent - WEIGHT_EXPONENT)
int sums_exponent;                     // finite scales of values so far are less than 2^sums_exponent

// An exponent e such that a finite float with these bits is less than 2^e.
int exponent_above(uint bits) { return max(int(bits >> 23) - 126, LEAST_EXPONENT); }

// Two codes less CACHE_ZERO: bytes 0 and 2, or 1 and 3. With 0x64 above it, a byte is 1024 more than itself in float16.
uint THOUSANDS = 0x64006400u + (gl_NumWorkGroups.z >> 31); // not a constant, so that one operation masks and sets bits
f16vec2 even_codes(uint word) {
    return unpackFloat2x16((word & 0x00ff00ffu) | THOUSANDS) - f16vec2(1024.0 + float(CACHE_ZERO));
}
f16vec2 odd_codes(uint word) { return even_codes(word >> 8); }

// Four elements of q as words of an operand, whose columns follow those of even_codes and odd_codes.
uvec4 query_words(vec4 v) {
    vec4 high = high_part4(v), low = v - high;
    return uvec4(packFloat2x16(f16vec2(high.xz)), packFloat2x16(f16vec2(low.xz)), packFloat2x16(f16vec2(high.yw)),
                 packFloat2x16(f16vec2(low.yw)));
}

// Makes operands of the queries. Called by all threads together.
void split_queries() {
    vec4 quads[2 * GROUPS];
    [[unroll]] for (uint i = 0; i < 2 * GROUPS; i++) {
        quads[i] = query_quad(own_head(), i / 2 * (CACHE_GROUP / 4) + i % 2 + 2 * t());
    }
    uint most = 0;
    [[unroll]] for (uint i = 0; i < 2 * GROUPS; i++) {
        uvec4 bits = floatBitsToUint(quads[i]) & 0x7fffffffu;
        most = max(most, max(max(bits.x, bits.y), max(bits.z, bits.w)));
    }
    most = max(most, subgroupShuffleXor(most, 1));
    most = max(most, subgroupShuffleXor(most, 2));
    int exponent = exponent_above(most) - QUERY_EXPONENT;
    q_unit = exp2_int(exponent);
    if (slot_index() == 0) {
        [[unroll]] for (uint i = 0; i < 2 * GROUPS; i++) {
            q_words[i * 16 + gl_SubgroupInvocationID % 16] = query_words(quads[i] * exp2_int(-exponent));
        }
    }
    barrier();
}

vec4 scores_of_batch() {
    vec4 scores;
    [[unroll]] for (uint j = 0; j < 2; j++) {
        vec2 two = vec2(0.0);
        [[unroll]] for (uint i = 0; i < GROUPS; i++) {
            uint from = staged(8 * j + g()) + i * (CACHE_GROUP / 4) + 2 * t();
            uvec2 words = uvec2(stage[from], stage[from + 1]);
            vec4 c = vec4(0.0);
            [[unroll]] for (uint e = 0; e < 2; e++) {
                uvec2 pairs = uvec2(packFloat2x16(even_codes(words[e])), packFloat2x16(odd_codes(words[e])));
                c = mul_add(q_words[(2 * i + e) * 16 + gl_SubgroupInvocationID % 16], pairs, c);
            }
            // Written out, so that every kernel rounds alike.
            two = fma(vec2(scales[2 * j][i], scales[2 * j + 1][i]), c.xy + c.zw, two);
        }
        scores[2 * j] = two.x;
        scores[2 * j + 1] = two.y;
    }
    return scores * q_unit;
}

float largest_scale() {
    float largest = 0.0;
    [[unroll]] for (uint i = 0; i < 4; i++) {
        [[unroll]] for (uint n = 0; n < GROUPS; n++) {
            largest = max(largest, abs(scales[i][n]));
        }
    }
    largest = max(largest, subgroupShuffleXor(largest, 1));
    return max(largest, subgroupShuffleXor(largest, 2));
}

// The factor of a column's sums, taken from a lane that has this head.
float of_column(float v, uint column) { return subgroupShuffle(v, column % HEADS * 4); }

// Makes weights of scores, in units of 2^-WEIGHT_EXPONENT and of the scales of values, and rescales the sums.
vec4 weigh(vec4 scores, uint seen) {
    [[unroll]] for (uint i = 0; i < 4; i++) {
        scores[i] = key_of(i) < seen ? scores[i] : LOWEST;
    }
    float most = max(top, max(max(scores.x, scores.y), max(scores.z, scores.w)));
    most = max(most, subgroupShuffleXor(most, 1));
    most = max(most, subgroupShuffleXor(most, 2));
    int exponent = max(sums_exponent, exponent_above(floatBitsToUint(largest_scale())));
    float keep = exp2(top - most);
    float factor = keep * power_or_zero(sums_exponent - exponent);
    vec4 factors = vec4(of_column(factor, 2 * t()), of_column(factor, 2 * t() + 1), 0.0, 0.0).xyxy;
    [[unroll]] for (uint n = 0; n < 2 * GROUPS; n++) {
        columns[n] *= factors;
    }
    top = most;
    sums_exponent = exponent;
    vec4 weights = exp2(scores - most);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        weights[i] = key_of(i) < seen ? weights[i] : 0.0;
    }
    sum = fma(sum, keep, (weights.x + weights.y) + (weights.z + weights.w));
    // An infinite scale, which no op stores, makes NaNs of the whole row.
    return weights * (exponent > 128 ? make_nan() : exp2_int(WEIGHT_EXPONENT - exponent));
}

// An operand of elements 0 and 2, or 1 and 3, of four keys' values.
uvec4 operand(f16vec2 v[4]) {
    return uvec4(packFloat2x16(f16vec2(v[0].x, v[1].x)), packFloat2x16(f16vec2(v[0].y, v[1].y)),
                 packFloat2x16(f16vec2(v[2].x, v[3].x)), packFloat2x16(f16vec2(v[2].y, v[3].y)));
}

void add_values(vec4 weights) {
    bool low = (g() / HEADS & 1u) != 0;
    [[unroll]] for (uint n = 0; n < GROUPS; n++) {
        precise vec4 w = weights * vec4(scales[0][n], scales[1][n], scales[2][n], scales[3][n]);
        vec4 high = uintBitsToFloat(floatBitsToUint(w) & 0xffffe000u); // cut off, for fewer operations
        w = low ? w - high : high;
        uvec2 pairs = uvec2(packFloat2x16(f16vec2(w.xy)), packFloat2x16(f16vec2(w.zw)));
        f16vec2 even[4], odd[4];
        [[unroll]] for (uint i = 0; i < 4; i++) {
            uint word = stage[staged(key_of(i)) + n * (CACHE_GROUP / 4) + g()];
            even[i] = even_codes(word);
            odd[i] = odd_codes(word);
        }
        columns[2 * n] = mul_add(operand(even), pairs, columns[2 * n]);
        columns[2 * n + 1] = mul_add(operand(odd), pairs, columns[2 * n + 1]);
    }
}

// Brings the highest scores and the weights into the form of paged_ranges.glsl.
void finish_sums() {
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        highest[h] = subgroupShuffle(top, h * 4);
        weight[h] = subgroupShuffle(sum, h * 4);
    }
}

// Goes through the keys of a range. Loads of the first ones are under way (load_first), and the queries are split.
// new_place, with NEW_KEYS: the place of a key that is in new_words but in no page yet, or a number beyond all places
// if there is none.
void attend(uint table_row, uint key_head, uint key, uint end, uint new_place) {
    top = LOWEST;
    sum = 0.0;
    sums_exponent = LEAST_EXPONENT;
    [[unroll]] for (uint n = 0; n < 2 * GROUPS; n++) {
        columns[n] = vec4(0.0);
    }
    for (; key < end; key += SLOTS * BATCH) {
        uint seen = current.page < p.pages ? end - key : 0;
        uint new_key = new_place - (current.page * PAGE + key % PAGE); // less than BATCH: it is one of these
        put(key_quads, 0, BATCH, new_key);
        if (VALUES_AHEAD) {
            load_keys(next);
        } else {
            load_values(current);
        }
        vec4 scores = scores_of_batch();
        if (!VALUES_AHEAD) {
            load_keys(next);
        }
        put(value_quads, 1, seen, new_key);
        if (VALUES_AHEAD) {
            load_values(next);
        }
        add_values(weigh(scores, seen));
        current = next;
        next = place_of(table_row, key_head, key + 2 * SLOTS * BATCH, end);
    }
    finish_sums();
}

// Puts the sums into the slot's stage.
void put_heads(uint) {
    float unit = exp2_int(sums_exponent - WEIGHT_EXPONENT);
    subgroupBarrier(); // what is there has been read
    [[unroll]] for (uint n = 0; n < GROUPS; n++) {
        vec4 a = columns[2 * n], b = columns[2 * n + 1]; // elements 0 and 2, and 1 and 3, of two columns
        a = (a + (HEADS == 1 ? a.yyww : subgroupShuffleXor(a, HEADS / 2))) * unit;
        b = (b + (HEADS == 1 ? b.yyww : subgroupShuffleXor(b, HEADS / 2))) * unit;
        if (2 * t() < HEADS) {
            uint to = staged(0) + 2 * t() * DV_CHUNK + n * CACHE_GROUP + 4 * g();
            put_quad(to, floatBitsToUint(vec4(a.x, b.x, a.z, b.z)));
            if (HEADS > 1) {
                put_quad(to + DV_CHUNK, floatBitsToUint(vec4(a.y, b.y, a.w, b.w)));
            }
        }
    }
}

float slot_sum_of(uint slot, uint h, uint d) { return uintBitsToFloat(stage[slot * WORDS + h * DV_CHUNK + d]); }

#endif
