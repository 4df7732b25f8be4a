// Attention over pages of floats of new tokens that do not see each other: it norms and rotates a token's heads, writes
// its key and value into their page, and attends, with the same bits as paged_heads and paged_sdpa. A workgroup handles
// some query heads of one key head of a token and a range of the keys. The heads are loaded first of all, unless they
// may not be there yet (OVERLAP), and the first keys are loaded while the heads are prepared. The new key and value,
// which are in no page yet, replace whatever is loaded in their place. New tokens of one sequence give NaNs.
//
// variants: narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require

#include "tensor.glsl"
#include "cache_words.glsl"

layout(local_size_x_id = 0) in; // at least TEAM, and as many as there are rows
layout(constant_id = 1) const uint q_DT = DT_FLOAT32;
const uint k_DT = q_DT;
const uint v_DT = q_DT;
const uint q_gain_DT = q_DT;
const uint k_gain_DT = q_DT;
const uint y_DT = q_DT;
layout(constant_id = 19) const uint OVERLAP = 0;
#include "awaited_heads.glsl"
layout(set = 0, binding = 0) readonly buffer PartSums { float part_sums[]; };
layout(set = 0, binding = 1) readonly buffer Squares { float squares[]; };
TENSOR_BLOCKS(3, q_gain, readonly)
TENSOR_LOADS(q_gain)
TENSOR_BLOCKS(4, k_gain, readonly)
TENSOR_LOADS(k_gain)
layout(set = 0, binding = 5) readonly buffer Positions { int positions[]; };
layout(set = 0, binding = 6) readonly buffer Freqs { float freqs[]; };
layout(set = 0, binding = 7) readonly buffer Slots { int slots[]; };
TENSOR_OUT(8, keys, 2)
const uint values_DT = keys_DT;
TENSOR_BLOCKS(9, values, )
TENSOR_STORES(values)
QUADS_INOUT(8, keys)
QUADS_INOUT(9, values)
QUAD_WORDS(keys)
QUAD_WORDS(values)
layout(set = 0, binding = 10) readonly buffer Table { int table[]; };
layout(set = 0, binding = 11) readonly buffer Sequences { int sequences[]; };
layout(set = 0, binding = 12) readonly buffer Lengths { int lengths[]; };
TENSOR_BLOCKS(13, y, )
TENSOR_SET_BITS(y)
void y_store(uint i, float v) { y_set_bits(i, float_to_bits(as_given(13, v), y_DT)); }
layout(set = 0, binding = 14) volatile coherent buffer Parts { float parts[]; };
layout(set = 0, binding = 15) coherent buffer Arrivals { uint arrivals[]; };
layout(constant_id = 3) const uint D = 128;    // a multiple of 4, at most 256
layout(constant_id = 4) const uint DIMS = 128; // of them are rotated
layout(constant_id = 5) const uint FLAGS = 0;  // STEP_*
layout(constant_id = 13) const uint SHARE = 1; // workgroups that share a key head
#define KEY_SPEC 6
#define SLOT_SPEC 12
#define SUMS_SPEC 14
#define SUM_ROWS gl_NumWorkGroups.y
layout(push_constant) uniform Push { PagedStepParams p; };

const bool CODES = false;
#define VALUE_ELEMENTS D
#define SEQUENCE_OF(row) sequences[p.sequence_offset + (row)]
#define LENGTH_OF(row) lengths[p.length_offset + (row)]
#include "paged_attention.glsl"
#define PAIR_THREADS 512
#define PREPARED_QUADS ((HEADS + 2) * (D / 4)) // the queries, the new key, the new value
#include "paged_pairs.glsl"

uint place; // where the new token goes; beyond all places: nowhere

uint offset_of(uint page, uint head, uint token) {
    return page * p.pages_strides[0] + head * p.pages_strides[1] + token * p.pages_strides[2];
}

// One of the workgroups that share a key head writes the new token: none of them reads what is there.
uint other_than_new(uint page, uint token) {
    return SHARE != 1 && page * p.page + token == place ? token ^ 1u : token;
}

uint keys_from(uint page, uint head, uint token) {
    return p.keys_offset + offset_of(page, head, other_than_new(page, token));
}

uint values_from(uint page, uint head, uint token) {
    return p.values_offset + offset_of(page, head, other_than_new(page, token));
}

const bool WHOLE = QUADS == K_QUADS * LANES; // no lane is beyond the end of a head

uvec4 load_k(uint from, uint quad) { return keys_quad_words(from + min(quad, QUADS - 1) * 4); }

uvec4 load_v(uint from, uint first, uint quad) { return values_quad_words(from + min(quad, QUADS - 1) * 4); }

// Whether key j of the batch is the new one, which is not loaded.
bool is_new(uint j) { return j < seen_keys && pages_of[j] * p.page + tokens_of[j] == place; }

vec4 key_quad(uint j, uint i) {
    uint quad = lane_quad(i);
    vec4 r = is_new(j) ? heads_s[HEADS * QUADS + min(quad, QUADS - 1)] : quad_of_words(keys_DT, key_words[j * K_QUADS + i]);
    return WHOLE || quad < QUADS ? r : vec4(0.0);
}

vec4 value_quad(uint j, uint i, uint first) {
    uint quad = lane_quad(i);
    vec4 r = is_new(j) ? heads_s[(HEADS + 1) * QUADS + min(quad, QUADS - 1)]
                       : quad_of_words(values_DT, value_words[j * V_QUADS + i]);
    return WHOLE || quad < QUADS ? r : vec4(0.0);
}

float key_scale(uint j, uint i) { return 1.0; }
float value_scale(uint j, uint i) { return 1.0; }

// Writes the new key or value to its place, if it has one.
void store_pair(uint kind, uint key_head, uvec2 at, vec2 pair) {
    if (place >= p.pages * p.page) {
        return;
    }
    uint to = offset_of(place / p.page, key_head, place % p.page);
    if (kind == 1) {
        keys_store(p.keys_offset + to + at.x, pair.x);
        keys_store(p.keys_offset + to + at.y, pair.y);
    } else {
        values_store(p.values_offset + to + at.x, pair.x);
        values_store(p.values_offset + to + at.y, pair.y);
    }
}

#define PLACES (p.pages * p.page)
#include "paged_new_heads.glsl"

void take_queries() {
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
            vec4 quad = heads_s[h * QUADS + min(lane_quad(i), QUADS - 1)] * (p.scale * LOG2_E);
            q_row[h * K_QUADS + i] = lane_quad(i) < QUADS ? quad : vec4(0.0);
        }
    }
}

// Makes NaNs of the results.
void spoil_sums() {
    [[unroll]] for (uint i = 0; i < HEADS * V_QUADS; i++) {
        acc[i] = vec4(uintBitsToFloat(0x7fc00000u));
    }
}

void main() {
    uint row = gl_WorkGroupID.y;
    uint first_head = gl_WorkGroupID.x * HEADS;
    uint key_head = gl_WorkGroupID.x / SHARE;
    if (AWAITED_HEADS == 0) {
        load_heads(row, first_head, key_head);
    }
    place = uint(slots[p.slot_offset + row]);
    bool met = meets_other(row);
    uint length = row_length(row);
    uint splits = splits_of(length);
    if (gl_WorkGroupID.z >= splits) {
        return;
    }
    uint per = keys_of_split(length, splits);
    uint first = min(length, gl_WorkGroupID.z * per);
    uint end = min(length, first + per);
    uint table_row = table_row_of(row);
    // Normally, the last key is the new one.
    uint writer = length == 0 ? 0 : (length - 1) / per;
    bool stores = gl_WorkGroupID.z == writer && gl_WorkGroupID.x % SHARE == 0;
    uint key = first;
    do { // no copy for the first keys: code that runs for the first time waits until it is fetched
        if (key < end) {
            load_keys(table_row, key_head, 0, key + slot_index() * BATCH, end);
        }
        if (key == first) { // while keys are loaded
            if (AWAITED_HEADS != 0) {
                do {
                    load_heads(row, first_head, key_head);
                } while (heads_are_missing());
            }
            prepare_heads(row, key_head, stores, met && length > 0);
            take_queries();
            begin_sums();
            if (rows_met_s != 0) {
                spoil_sums();
            }
        }
        if (key < end) {
            add_keys(0);
        }
        key += slot_count() * BATCH;
    } while (key < end);
    store_heads(row * gl_NumWorkGroups.x * HEADS + first_head, 0, splits);
}
