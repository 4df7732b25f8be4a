// paged_step for pages of 8-bit codes, by matrices (paged_fragments.glsl), with the same bits as paged_heads and
// paged_sdpa_fragments. A workgroup has all query heads of a key head of a token, and a range of the keys. The first
// keys and values are loaded while the heads are prepared. The new key and value replace whatever is loaded in their
// place. New tokens of one sequence give NaNs.
//
// variants: narrow_subgroup_khr
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require

#include "quads.glsl"

layout(local_size_x_id = 0) in; // at least TEAM, and as many as there are rows
layout(constant_id = 1) const uint q_DT = DT_FLOAT32;
const uint k_DT = q_DT;
const uint v_DT = q_DT;
const uint q_gain_DT = q_DT;
const uint k_gain_DT = q_DT;
const uint y_DT = q_DT;
layout(constant_id = 14) const uint OVERLAP = 0;
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
const uint keys_DT = DT_UINT8, values_DT = DT_UINT8;
TENSOR_BLOCKS(8, keys, )
TENSOR_BLOCKS(9, values, )
QUADS_INOUT(8, keys)
QUADS_INOUT(9, values)
layout(set = 0, binding = 10) readonly buffer Table { int table[]; };
layout(set = 0, binding = 11) readonly buffer Sequences { int sequences[]; };
layout(set = 0, binding = 12) readonly buffer Lengths { int lengths[]; };
TENSOR_BLOCKS(13, y, )
TENSOR_SET_BITS(y)
void y_store(uint i, float v) { y_set_bits(i, float_to_bits(as_given(13, v), y_DT)); }
layout(set = 0, binding = 14) volatile coherent buffer Parts { float parts[]; };
layout(set = 0, binding = 15) coherent buffer Arrivals { uint arrivals[]; };
layout(constant_id = 2) const uint DIMS = 128; // elements of a head that are rotated
layout(constant_id = 3) const uint FLAGS = 0;  // STEP_*
#define KEY_SPEC 4
#define SLOT_SPEC 8
#define SUMS_SPEC 9
#define SUM_ROWS gl_NumWorkGroups.y
layout(push_constant) uniform Push { PagedStepParams p; };

const bool NEW_KEYS = true, CODES = true;
// There are few workgroups, and they have the device to themselves.
const bool VALUES_AHEAD = true;
#define SEQUENCE_OF(row) sequences[p.sequence_offset + (row)]
#define LENGTH_OF(row) lengths[p.length_offset + (row)]
#include "paged_fragments.glsl"
const uint D = DV_CHUNK;
#define PAIR_THREADS 512
#define PREPARED_QUADS ((HEADS + 2) * (D / 4)) // the queries, the new key, the new value
#include "paged_pairs.glsl"
CACHE_STORES(keys)
CACHE_STORES(values)

uint offset_of(uint page, uint head, uint token) {
    return page * p.pages_strides[0] + head * p.pages_strides[1] + token * p.pages_strides[2];
}

uint keys_from(uint page, uint head, uint token) { return p.keys_offset + offset_of(page, head, token); }
uint values_from(uint page, uint head, uint token) { return p.values_offset + offset_of(page, head, token); }

uvec4 keys_bits(uint at) { return keys_q32.data[at]; }
uvec4 values_bits(uint at) { return values_q32.data[at]; }

vec4 query_quad(uint head, uint quad) { return heads_s[head * QUADS + quad] * (p.scale * LOG2_E); }

void store_pair(uint, uint, uvec2, vec2) {} // codes are made of whole groups

#define PLACES (p.pages * PAGE)
#include "paged_new_heads.glsl"

// Makes codes of the new key and value, and stores them in their place, if they have one. All threads call it, and see
// the codes after the next barrier.
void make_codes(uint key_head, uint place, bool stores) {
    for (uint i = gl_LocalInvocationIndex; i < 2 * QUADS; i += gl_WorkGroupSize.x) {
        uint kind = i / QUADS, quad = i % QUADS;
        vec2 group;
        uint word = head_codes(HEADS + kind, quad, group);
        new_words[kind * PITCH + quad] = word;
        if (quad % CACHE_QUADS == 0) {
            new_words[kind * PITCH + QUADS + quad / CACHE_QUADS] = floatBitsToUint(group.x);
        }
        if (!stores || place >= PLACES) {
            continue;
        }
        if (kind == 0) {
            keys_cache_store(keys_from(place / PAGE, key_head, place % PAGE), quad, D, word, group);
        } else {
            values_cache_store(values_from(place / PAGE, key_head, place % PAGE), quad, D, word, group);
        }
    }
}

void main() {
    uint row = gl_WorkGroupID.y, key_head = gl_WorkGroupID.x, first_head = key_head * HEADS;
    if (AWAITED_HEADS == 0) {
        load_heads(row, first_head, key_head);
    }
    uint place = uint(slots[p.slot_offset + row]);
    bool met = meets_other(row);
    uint length = row_length(row), splits = splits_of(length);
    if (gl_WorkGroupID.z >= splits) {
        return;
    }
    uint per = keys_of_split(length, splits);
    uint key = gl_WorkGroupID.z * per + slot_index() * BATCH, end = min(length, (gl_WorkGroupID.z + 1) * per);
    uint table_row = table_row_of(row);
    load_first(table_row, key_head, key, end);
    if (AWAITED_HEADS != 0) {
        do {
            load_heads(row, first_head, key_head);
        } while (heads_are_missing());
    }
    uint writer = length == 0 ? 0 : (length - 1) / per; // normally, the last key is the new one
    prepare_heads(row, key_head, false, met && length > 0);
    make_codes(key_head, place, gl_WorkGroupID.z == writer);
    split_queries();
    attend(table_row, key_head, key, end, place);
    if (rows_met_s != 0) { // makes NaNs of the results
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            weight[h] = make_nan();
        }
    }
    store_heads(row * gl_NumWorkGroups.x * HEADS + first_head, 0, splits);
}
