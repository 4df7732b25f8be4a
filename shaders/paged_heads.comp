// Prepares the heads of new tokens for attention over pages: norms and rotates
// queries and keys, and writes keys and values into their pages. A workgroup handles
// one head of one row; each thread a pair of its elements.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in; // a power of two, at least D / 2

TENSOR_IN(0, q, 1)
const uint k_DT = q_DT;
const uint v_DT = q_DT;
const uint q_gain_DT = q_DT;
const uint k_gain_DT = q_DT;
TENSOR_BLOCKS(1, k, readonly)
TENSOR_LOADS(k)
TENSOR_BLOCKS(2, v, readonly)
TENSOR_LOADS(v)
TENSOR_BLOCKS(3, q_gain, readonly)
TENSOR_LOADS(q_gain)
TENSOR_BLOCKS(4, k_gain, readonly)
TENSOR_LOADS(k_gain)
layout(set = 0, binding = 0) readonly buffer PartSums { float part_sums[]; };
layout(set = 0, binding = 1) readonly buffer Squares { float squares[]; };
layout(set = 0, binding = 5) readonly buffer Positions { int positions[]; };
layout(set = 0, binding = 6) readonly buffer Freqs { float freqs[]; };
layout(set = 0, binding = 7) readonly buffer Slots { int slots[]; };
TENSOR_OUT(8, keys, 2)
const uint values_DT = keys_DT;
TENSOR_BLOCKS(9, values, )
TENSOR_STORES(values)
const uint y_DT = q_DT;
TENSOR_BLOCKS(10, y, )
TENSOR_STORES(y)
layout(constant_id = 3) const uint D = 128;
layout(constant_id = 4) const uint DIMS = 128; // of them are rotated
layout(constant_id = 5) const uint HEADS = 16;
layout(constant_id = 6) const uint KV_HEADS = 8;
layout(constant_id = 7) const uint FLAGS = 0; // STEP_*
#define SUMS_SPEC 8
#define SUM_ROWS p.rows

layout(push_constant) uniform Push { PagedHeadsParams p; };

#define PAIR_THREADS 256
#define PREPARED_QUADS (keys_DT == DT_UINT8 ? D / 4 : 1)
#include "paged_pairs.glsl"
CACHE_STORES(keys)
CACHE_STORES(values)

// Where a key or value begins. Negative slots are beyond all places.
uint place_of(uint kind, uint head, uint slot) {
    uint page = slot / p.page, token = slot % p.page;
    if (kind == 1) {
        return p.keys_offset + page * p.keys_strides[0] + head * p.keys_strides[1] + token * p.keys_strides[2];
    }
    return p.values_offset + page * p.values_strides[0] + head * p.values_strides[1] + token * p.values_strides[2];
}

void store_pair(uint kind, uint row, uint head, uvec2 at, vec2 pair) {
    if (kind == 0) {
        uint to = p.out_offset + (row * HEADS + head) * D;
        y_store(to + at.x, pair.x);
        y_store(to + at.y, pair.y);
        return;
    }
    uint slot = uint(slots[p.slot_offset + row]);
    if (slot >= p.places) {
        return;
    }
    uint to = place_of(kind, head, slot);
    if (kind == 1) {
        keys_store(to + at.x, pair.x);
        keys_store(to + at.y, pair.y);
        return;
    }
    values_store(to + at.x, pair.x);
    values_store(to + at.y, pair.y);
}

// Stores the key or value in heads_s as codes. Called by all threads together.
void store_codes(uint kind, uint row, uint head) {
    barrier();
    uint quad = gl_LocalInvocationIndex;
    uint slot = uint(slots[p.slot_offset + row]);
    if (quad >= QUADS || slot >= p.places) {
        return;
    }
    vec2 group;
    uint word = head_codes(0, quad, group);
    uint to = place_of(kind, head, slot);
    if (kind == 1) {
        keys_cache_store(to, quad, D, word, group);
    } else {
        values_cache_store(to, quad, D, word, group);
    }
}

void main() {
    const uint all = HEADS + 2 * KV_HEADS;
    uint row = workgroup_index() / all;
    uint head = workgroup_index() % all;
    if (row >= p.rows) {
        return;
    }
    uint kind = head < HEADS ? 0 : head < HEADS + KV_HEADS ? 1 : 2;
    head -= kind == 0 ? 0 : kind == 1 ? HEADS : HEADS + KV_HEADS;
    uint slot = gl_LocalInvocationIndex;
    bool exists = slot < D / 2;
    uvec2 at = pair_at(exists ? slot : 0);
    uint from = kind == 0   ? p.q_offset + row * p.q_strides[0] + head * p.q_strides[1]
                : kind == 1 ? p.k_offset + row * p.k_strides[0] + head * p.k_strides[1]
                            : p.v_offset + row * p.v_strides[0] + head * p.v_strides[1];
    vec2 pair = exists ? load_pair(kind, from, at, p.q_strides[0]) : vec2(0.0);
    pair = pair_result(pair, sums_factor(own_squares(row)));
    if (is_normed(kind)) {
        pair = normed(pair, head_scale(pair, kind == 0 ? p.q_eps : p.k_eps), gain_of(kind, at));
    }
    if (exists && kind != 2 && slot < DIMS / 2) {
        pair = rotated(pair, turn_of(slot, row));
    }
    bool codes = keys_DT == DT_UINT8 && kind != 0;
    if (exists && codes) {
        set_head(0, at, pair);
    } else if (exists) {
        store_pair(kind, row, head, at, pair);
    }
    if (codes) {
        store_codes(kind, row, head);
    }
}
