// Attention of one row and up to HEADS query heads of one key head over a range of keys in pages: each slot of lanes
// processes BATCH keys at a time, each lane some quads of the head, with a running maximum and sum of its own, which
// are merged at the end. The number of ranges of a row depends on how many keys it sees: each has KEYS or more. Of
// several workgroups, the last to finish combines their results.
//
// All loads of a batch of keys are in flight together, so nothing may branch before them; they are held as they were
// loaded until they are used.
//
// Before the include: the constants KEY_SPEC (K_QUADS, V_QUADS, HEADS, BATCH, ALIGNED, KEYS) and SLOT_SPEC; the push
// constants p with page, pages, sequences, capacity, table_strides, table_offset and out_offset; table[], parts[] and
// arrivals[]; y_store; SEQUENCE_OF and LENGTH_OF a row; VALUE_ELEMENTS of a head; whether its elements are CODES. After
// the include: keys_from and values_from, where the key and value of a head and token of a page begin; load_k and load_v,
// the words of a lane's quad of them; key_quad and value_quad, which make floats of the words, and of CODES key_scale and
// value_scale, by which these are to be multiplied.
#ifndef PAGED_ATTENTION_GLSL
#define PAGED_ATTENTION_GLSL

layout(constant_id = KEY_SPEC) const uint K_QUADS = 1; // of a lane
layout(constant_id = KEY_SPEC + 1) const uint V_QUADS = 1;
layout(constant_id = KEY_SPEC + 2) const uint HEADS = 1;
layout(constant_id = KEY_SPEC + 3) const uint BATCH = 4;
layout(constant_id = KEY_SPEC + 4) const uint ALIGNED = 0; // whether a batch never spans two pages
layout(constant_id = KEY_SPEC + 5) const uint KEYS = 256;  // of a range, at least
#include "log2_e.glsl"
#include "slots.glsl"
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#include "exchanged_sums.glsl"
#endif
#include "last_arrival.glsl"

const float LOWEST = -3.4e38; // stands for a missing score; finite, so that differences are finite
const uint SLOTS = gl_WorkGroupSize.x / LANES;
const uint MOST_SPLITS = 16; // ranges of a row that are combined
const uint DV_CHUNK = 256;   // elements of an output row in one workgroup
const uint STORED = HEADS % 2 != 0 || V_QUADS > 1 ? 1 : 2; // heads whose sums are stored together

shared float slot_highest[HEADS * SLOTS];
shared float slot_weight[HEADS * SLOTS];
shared vec4 slot_part[SLOTS * STORED * DV_CHUNK / 4];

vec4 q_row[HEADS * K_QUADS];
vec4 acc[HEADS * V_QUADS];
float highest[HEADS]; // of the scores so far
float weight[HEADS];  // sum of exp2(score - highest)

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

// The number of tokens that the row sees; 0 if its sequence does not exist.
uint row_length(uint row) {
    uint sequence = uint(SEQUENCE_OF(row)); // both loads are in flight at once
    int length = clamp(LENGTH_OF(row), 0, int(p.capacity));
    return sequence < p.sequences ? uint(length) : 0;
}

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

uint table_row_of(uint row) {
    return p.table_offset + SEQUENCE_OF(row) * p.table_strides[0];
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

// Scales all slots to one maximum; highest and weight are then those of the workgroup.
void merge_weights() {
    uint slots = slot_count();
    if (slot_lane() == 0) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            slot_highest[h * SLOTS + slot_index()] = highest[h];
        }
    }
    barrier();
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        float top = LOWEST;
        [[unroll]] for (uint s = 0; s < SLOTS; s++) {
            top = s < slots ? max(top, slot_highest[h * SLOTS + s]) : top;
        }
        float keep = exp2(highest[h] - top);
        if (slot_lane() == 0) {
            slot_weight[h * SLOTS + slot_index()] = weight[h] * keep;
        }
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] *= keep;
        }
        highest[h] = top;
    }
    barrier();
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        weight[h] = 0.0;
        [[unroll]] for (uint s = 0; s < SLOTS; s++) {
            weight[h] += s < slots ? slot_weight[h * SLOTS + s] : 0.0;
        }
    }
}

// Where a range stores its results for a head: sums, highest score and weight.
uint part_of(uint output_row, uint split) { return (output_row * gl_NumWorkGroups.z + split) * (VALUE_ELEMENTS + 2); }

// Sums the slots' parts of STORED heads' output rows and stores them, or this range's part of them. All threads
// together.
void store_some(uint first, uint output_row, uint dv_first, bool is_all) {
    barrier(); // slot_part of the previous heads has been read
    [[unroll]] for (uint h = 0; h < STORED; h++) {
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            if (lane_quad(i) * 4 < DV_CHUNK) {
                slot_part[(h * SLOTS + slot_index()) * DV_CHUNK / 4 + lane_quad(i)] = acc[(first + h) * V_QUADS + i];
            }
        }
    }
    barrier();
    uint count = min(VALUE_ELEMENTS - dv_first, DV_CHUNK);
    for (uint at = gl_LocalInvocationIndex; at < STORED * count; at += gl_WorkGroupSize.x) {
        uint h = at / count, d = at % count;
        float sum = 0.0;
        [[unroll]] for (uint s = 0; s < SLOTS; s++) {
            sum += s < slot_count() ? slot_part[(h * SLOTS + s) * DV_CHUNK / 4 + d / 4][d & 3u] : 0.0;
        }
        float all = h == 0 ? weight[first] : weight[first + STORED - 1];
        if (is_all) {
            float factor = all == 0.0 ? 0.0 : 1.0 / all;
            y_store(p.out_offset + (output_row + h) * VALUE_ELEMENTS + dv_first + d, sum * factor);
        } else {
            parts[part_of(output_row + h, gl_WorkGroupID.z) + dv_first + d] = sum;
        }
    }
    if (!is_all && gl_LocalInvocationIndex == 0) { // the same for all that share the row
        [[unroll]] for (uint h = 0; h < STORED; h++) {
            uint to = part_of(output_row + h, gl_WorkGroupID.z) + VALUE_ELEMENTS;
            parts[to] = highest[first + h];
            parts[to + 1] = weight[first + h];
        }
    }
}

// Combines up to `most` ranges of a row: scales their results to one maximum and adds them up. All loads of a thread are
// in flight together.
void combine_up_to(uint most, uint first_row, uint dv_first, uint splits) {
    uint count = min(VALUE_ELEMENTS - dv_first, DV_CHUNK);
    for (uint i = gl_LocalInvocationIndex; i < HEADS * count; i += gl_WorkGroupSize.x) {
        uint row = first_row + i / count, d = dv_first + i % count;
        float tops[MOST_SPLITS], weights[MOST_SPLITS], sums[MOST_SPLITS];
        [[unroll]] for (uint s = 0; s < most; s++) {
            uint from = part_of(row, min(s, splits - 1));
            sums[s] = parts[from + d];
            tops[s] = parts[from + VALUE_ELEMENTS];
            weights[s] = parts[from + VALUE_ELEMENTS + 1];
        }
        float top = LOWEST;
        [[unroll]] for (uint s = 0; s < most; s++) {
            top = max(top, tops[s]);
        }
        float sum = 0.0, all = 0.0;
        [[unroll]] for (uint s = 0; s < most; s++) {
            float keep = s < splits ? exp2(tops[s] - top) : 0.0;
            all += keep * weights[s];
            sum += keep * sums[s];
        }
        y_store(p.out_offset + row * VALUE_ELEMENTS + d, all == 0.0 ? 0.0 : sum / all);
    }
}

// Stores the results of HEADS rows with that many ranges. Called by all threads together.
void combine(uint first_row, uint dv_first, uint splits) {
    if (splits <= 4) {
        combine_up_to(4, first_row, dv_first, splits);
    } else if (splits <= 8) {
        combine_up_to(8, first_row, dv_first, splits);
    } else {
        combine_up_to(MOST_SPLITS, first_row, dv_first, splits);
    }
}

// The number of ranges of a row of that many keys.
uint splits_of(uint length) { return clamp((length + KEYS - 1) / KEYS, 1, gl_NumWorkGroups.z); }

// How many keys each of them has; the last one may have fewer.
uint keys_of_split(uint length, uint splits) {
    uint per = (length + splits - 1) / splits;
    return (per + BATCH - 1) / BATCH * BATCH;
}

// Stores the results of this range for HEADS heads from output_row on. Called by all threads together.
void store_heads(uint output_row, uint dv_first, uint splits) {
    merge_weights();
    [[unroll]] for (uint h = 0; h < HEADS; h += STORED) {
        store_some(h, output_row + h, dv_first, splits == 1);
    }
    if (splits > 1 && is_last(workgroup_index(), splits)) {
        combine(output_row, dv_first, splits);
    }
}

#endif
