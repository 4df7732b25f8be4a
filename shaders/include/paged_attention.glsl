// Attention of one row and up to HEADS query heads of one key head over a range of keys in pages (paged_ranges.glsl):
// each slot of lanes processes BATCH keys at a time, each lane some quads of the head.
//
// All loads of a batch of keys are in flight together, so nothing may branch before them; they are held as they were
// loaded until they are used.
//
// Before the include: the constants KEY_SPEC (K_QUADS, V_QUADS, HEADS, BATCH, ALIGNED, KEYS) and SLOT_SPEC; the push
// constants p with page and pages, and what else paged_ranges.glsl needs; table[]; whether the elements of a head are
// CODES. After the include: keys_from and values_from, where the key and value of a head and token of a page begin;
// load_k and load_v, the words of a lane's quad of them; key_quad and value_quad, which make floats of the words, and
// of CODES key_scale and value_scale, by which these are to be multiplied.
#ifndef PAGED_ATTENTION_GLSL
#define PAGED_ATTENTION_GLSL

layout(constant_id = KEY_SPEC) const uint K_QUADS = 1; // of a lane
layout(constant_id = KEY_SPEC + 1) const uint V_QUADS = 1;
layout(constant_id = KEY_SPEC + 2) const uint HEADS = 1;
layout(constant_id = KEY_SPEC + 3) const uint BATCH = 4;
layout(constant_id = KEY_SPEC + 4) const uint ALIGNED = 0; // whether a batch never spans two pages
layout(constant_id = KEY_SPEC + 5) const uint KEYS = 256;  // of a range
const uint DV_CHUNK = 256; // elements of an output row in one workgroup
const uint STORED = HEADS % 2 != 0 || V_QUADS > 1 ? 1 : 2; // heads whose sums are stored together
const bool SHARED_SCALES = false;
#include "paged_ranges.glsl"
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#include "exchanged_sums.glsl"
#endif

vec4 q_row[HEADS * K_QUADS];
vec4 acc[HEADS * V_QUADS];

// Quad i of the lane, in quads of the head (of the workgroup's part of v's).
uint lane_quad(uint i) { return slot_lane() + i * slot_lanes(); }

uvec4 load_k(uint from, uint quad);
uvec4 load_v(uint from, uint first, uint quad);
vec4 key_quad(uint j, uint i); // the lane's quad i of key j of the batch
vec4 value_quad(uint j, uint i, uint first);
float key_scale(uint j, uint i);
float value_scale(uint j, uint i);
uint keys_from(uint page, uint head, uint token);
uint values_from(uint page, uint head, uint token);

uint pages_of[BATCH];  // the keys' pages, and
uint tokens_of[BATCH]; // their places in them
uint seen_keys;        // how many of them exist

// Locates the keys key..key+BATCH-1; beyond the last one, it is the last one.
void find_keys(uint table_row, uint key, uint end) {
    seen_keys = end - min(key, end);
    if (ALIGNED != 0) {
        uint first = min(key, end - 1);
        uint number = first / p.page;
        uint page = uint(table[table_row + number * p.table_strides[1]]);
        [[unroll]] for (uint j = 0; j < BATCH; j++) {
            pages_of[j] = page;
            tokens_of[j] = min(first + j, end - 1) - number * p.page;
        }
        return;
    }
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        uint at = min(key + j, end - 1);
        pages_of[j] = uint(table[table_row + at / p.page * p.table_strides[1]]);
        tokens_of[j] = at % p.page;
    }
}

uvec4 key_words[BATCH * K_QUADS];
uvec4 value_words[BATCH * V_QUADS];

// Loads the keys key..key+BATCH-1 and their values.
void load_keys(uint table_row, uint key_head, uint dv_first, uint key, uint end) {
    find_keys(table_row, key, end);
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        uint page = min(pages_of[j], p.pages - 1);
        uint from = keys_from(page, key_head, tokens_of[j]);
        [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
            key_words[j * K_QUADS + i] = load_k(from, lane_quad(i));
        }
    }
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        uint page = min(pages_of[j], p.pages - 1);
        uint from = values_from(page, key_head, tokens_of[j]);
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            value_words[j * V_QUADS + i] = load_v(from, dv_first, lane_quad(i));
        }
    }
}

const uint SCORES = BATCH * HEADS;
float scores[SCORES];

// Adds up the lanes' shares of all scores; every lane gets all sums.
#ifdef SUBGROUP
void sum_scores() {
    if ((SCORES & (SCORES - 1)) != 0 || SCORES > gl_SubgroupSize) {
        [[unroll]] for (uint i = 0; i < SCORES; i++) {
            scores[i] = slot_sum(scores[i]);
        }
        return;
    }
    EXCHANGE_SUMS(scores, SCORES, slot_lane())
    float sum = scores[0];
    for (uint bit = SCORES; bit < gl_SubgroupSize; bit *= 2) {
        sum += subgroupShuffleXor(sum, bit);
    }
    [[unroll]] for (uint i = 0; i < SCORES; i++) {
        scores[i] = subgroupShuffle(sum, i);
    }
}
#else
void sum_scores() {
    [[unroll]] for (uint i = 0; i < SCORES; i++) {
        scores[i] = slot_sum(scores[i]);
    }
}
#endif

// Whether a whole batch is in one page, so that add_keys looks at it only once.
#ifdef SUBGROUP
const bool PAGE_CHECKED = ALIGNED != 0;
#else
const bool PAGE_CHECKED = false; // where slots add up together, none may leave early
#endif

bool in_page(uint j) { return PAGE_CHECKED || pages_of[j] < p.pages; }

// Whether key j of the batch exists.
bool seen(uint j) { return j < seen_keys && in_page(j); }

// Makes zeros of the values that stand for missing ones: weights of zero would make NaNs of infinities.
void drop_unseen() {
    if (seen_keys < BATCH) {
        [[unroll]] for (uint j = 0; j < BATCH; j++) {
            [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
                value_words[j * V_QUADS + i] = j < seen_keys ? value_words[j * V_QUADS + i] : uvec4(0);
            }
        }
    }
}

// Makes weights of head h's scores.
void weigh_head(uint h) {
    float top = highest[h];
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        top = seen(j) ? max(top, scores[j * HEADS + h]) : top;
    }
    float keep = exp2(highest[h] - top);
    highest[h] = top;
    weight[h] *= keep;
    [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
        acc[h * V_QUADS + i] *= keep;
    }
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        float e = seen(j) ? exp2(scores[j * HEADS + h] - top) : 0.0;
        weight[h] += e;
        scores[j * HEADS + h] = e;
    }
}

// Adds those of the loaded keys that exist. Called by all threads together.
void add_keys(uint dv_first) {
    if (PAGE_CHECKED && pages_of[0] >= p.pages) {
        return;
    }
    drop_unseen();
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            scores[j * HEADS + h] = 0.0;
        }
        [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
            vec4 quad = key_quad(j, i);
            [[unroll]] for (uint h = 0; h < HEADS; h++) {
                float product = dot(q_row[h * K_QUADS + i], quad);
                scores[j * HEADS + h] += CODES ? product * key_scale(j, i) : product;
            }
        }
    }
    sum_scores();
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        weigh_head(h);
    }
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            vec4 quad = in_page(j) ? value_quad(j, i, dv_first) : vec4(0.0); // in no page it may be NaN
            float scale = in_page(j) ? value_scale(j, i) : 0.0;
            [[unroll]] for (uint h = 0; h < HEADS; h++) {
                float e = scores[j * HEADS + h];
                acc[h * V_QUADS + i] += (CODES ? e * scale : e) * quad;
            }
        }
    }
}

void begin_sums() {
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        highest[h] = LOWEST;
        weight[h] = 0.0;
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] = vec4(0.0);
        }
    }
}

shared vec4 slot_sums[SLOTS * STORED * DV_CHUNK / 4];

void put_heads(uint first) {
    [[unroll]] for (uint h = 0; h < STORED; h++) {
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            if (lane_quad(i) * 4 < DV_CHUNK) {
                slot_sums[(h * SLOTS + slot_index()) * DV_CHUNK / 4 + lane_quad(i)] = acc[(first + h) * V_QUADS + i];
            }
        }
    }
}

float slot_sum_of(uint slot, uint h, uint d) { return slot_sums[(h * SLOTS + slot) * DV_CHUNK / 4 + d / 4][d & 3u]; }

#endif
