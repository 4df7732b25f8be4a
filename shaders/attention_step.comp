// Attention of one new token: RMSNorm of its query and key heads, rotary position
// embedding, writing the new key and value into the cache, and attention over the
// cache. A workgroup handles a few query heads of one key head and every n-th
// chunk of keys. How many of these splits have keys depends on the length, which
// may be known only to the device. Of several workgroups for the same heads, the
// last to finish combines their results, unless the reader of the result does so
// (attention_parts.glsl). Keys and values are loaded while the previous ones are
// processed.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in; // THREADS
layout(constant_id = 1) const uint DT = DT_FLOAT32;
layout(constant_id = 2) const uint D = 128;      // elements of a head, a multiple of 4
layout(constant_id = 3) const uint HEADS = 2;    // query heads of a workgroup
layout(constant_id = 4) const uint SHARE = 1;    // number of workgroups that share a key head
layout(constant_id = 5) const uint FLAGS = 0;    // STEP_* of params_attention.h
layout(constant_id = 6) const uint V_LANES = 32; // threads side by side along a value, a power of two
layout(constant_id = 7) const uint CHUNK = 64;   // keys that a workgroup processes at a time: 32 or 64
layout(constant_id = 8) const uint PARTS = 0;    // 1: the result is one part for each split

#define q_DT DT
#define k_DT DT
#define v_DT DT
#define q_gain_DT DT
#define k_gain_DT DT
#define y_DT DT

#define READ_ONLY(slot, name) \
    TENSOR_BLOCKS(slot, name, readonly) \
    TENSOR_LOADS(name)

layout(constant_id = 9) const uint OVERLAP = 0;
#include "awaited_heads.glsl"
READ_ONLY(3, q_gain)
READ_ONLY(4, k_gain)
layout(set = 0, binding = 5) readonly buffer Positions { int positions[]; };
layout(set = 0, binding = 6) readonly buffer Starts { int starts[]; };
layout(set = 0, binding = 7) readonly buffer Lengths { int lengths[]; };
layout(set = 0, binding = 8) readonly buffer Freqs { float freqs[]; };
layout(set = 0, binding = 9) buffer Keys32 { uvec4 keys_32[]; };
layout(set = 0, binding = 9) buffer Keys16 { uvec2 keys_16[]; };
layout(set = 0, binding = 10) buffer Values32 { uvec4 values_32[]; };
layout(set = 0, binding = 10) buffer Values16 { uvec2 values_16[]; };
TENSOR_BLOCKS(11, y, )
TENSOR_SET_BITS(y)
void y_store(uint i, float v) { y_set_bits(i, float_to_bits(as_given(11, v), y_DT)); }
layout(set = 0, binding = 12) volatile coherent buffer Parts { vec4 parts[]; };
layout(set = 0, binding = 13) coherent buffer Arrivals { uint arrivals[]; };

layout(push_constant) uniform Push { AttentionStepParams p; };

#include "log2_e.glsl"
#include "rotary.glsl"

#define THREADS 256
#define TEAM 32 // threads that prepare a head
const float LOWEST = -3.4e38;
const uint NOWHERE = 0xffffffffu;

const uint QUADS = D / 4;
const uint SLOTS = (D / 2 + TEAM - 1) / TEAM; // pairs of elements of a head that a thread prepares
const uint K_LANES = THREADS / CHUNK;         // threads that share a key
const uint K_QUADS = (QUADS + K_LANES - 1) / K_LANES;
const bool K_EVEN = QUADS % K_LANES == 0;     // otherwise some of them would have less to do
const bool V_EVEN = QUADS == V_LANES;
const uint V_ROWS = THREADS / V_LANES;
const uint V_KEYS = CHUNK / V_ROWS; // values of a thread
const uint HELD = 8;                // quads of parts that a thread loads at once
const uint MOST_SPLITS = 64;
const uint EARLY_SPLITS = 2;

shared vec4 heads_s[(HEADS + 2) * QUADS]; // the queries, the new key, the new value
shared vec4 squares_s[THREADS / 4];
shared vec4 scores_s[HEADS * THREADS / 4]; // K_LANES numbers for each key
shared vec4 rows_s[HEADS * THREADS];
shared vec2 row_stats_s[HEADS * V_ROWS];           // highest score, and sum of weights
shared vec4 split_tops_s[HEADS * MOST_SPLITS / 4];    // by head and split
shared vec4 split_weights_s[HEADS * MOST_SPLITS / 4];
shared vec4 split_factors_s[HEADS * MOST_SPLITS / 4]; // exp2(top - highest top)

uint thread = gl_LocalInvocationIndex;
uint first_head = gl_WorkGroupID.x * HEADS;
uint kv_head = gl_WorkGroupID.x / SHARE;

bool has(uint flag) { return (FLAGS & flag) != 0; }

#include "step_heads.glsl"
#include "step_cache.glsl"

vec4 acc[HEADS];
float highest[HEADS]; // of the scores that a row of threads has processed
float weight[HEADS];  // sum of exp2(score - highest)

// This thread's share of the score of a key, for each head.
void score_key(uint first, uint fresh) {
    bool is_fresh = first + thread / K_LANES == fresh;
    vec4 sum[HEADS];
    [[unroll]] for (uint g = 0; g < HEADS; g++) {
        sum[g] = vec4(0.0);
    }
    [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
        uint at = key_quad(i);
        if (K_EVEN || at < QUADS) {
            vec4 quad = quad_of_bits(k_raw[i]);
            if (is_fresh) {
                quad = heads_s[HEADS * QUADS + at];
            }
            [[unroll]] for (uint g = 0; g < HEADS; g++) {
                sum[g] += quad * heads_s[g * QUADS + at];
            }
        }
    }
    [[unroll]] for (uint g = 0; g < HEADS; g++) {
        scores_s[g * THREADS / 4 + thread / 4][thread & 3u] = dot(sum[g], vec4(1.0));
    }
}

float score_of(uint g, uint key) {
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0; i < K_LANES / 4; i++) {
        sum += scores_s[g * THREADS / 4 + key * (K_LANES / 4) + i];
    }
    return dot(sum, vec4(1.0));
}

void add_values(uint first, uint end, uint fresh) {
    float e[HEADS * V_KEYS];
    [[unroll]] for (uint g = 0; g < HEADS; g++) {
        float top = highest[g];
        [[unroll]] for (uint i = 0; i < V_KEYS; i++) {
            float score = score_of(g, value_key(i));
            e[g * V_KEYS + i] = score;
            top = first + value_key(i) < end ? max(top, score) : top;
        }
        float keep = exp2(highest[g] - top);
        highest[g] = top;
        weight[g] *= keep;
        acc[g] *= keep;
        [[unroll]] for (uint i = 0; i < V_KEYS; i++) {
            float w = first + value_key(i) < end ? exp2(e[g * V_KEYS + i] - top) : 0.0;
            e[g * V_KEYS + i] = w;
            weight[g] += w;
        }
    }
    [[unroll]] for (uint i = 0; i < V_KEYS; i++) {
        uint key = first + value_key(i);
        vec4 quad = quad_of_bits(v_raw[i]);
        if (key == fresh) {
            quad = heads_s[(HEADS + 1) * QUADS + (V_EVEN ? value_quad() : min(value_quad(), QUADS - 1))];
        }
        quad = key < end ? quad : vec4(0.0); // what lies beyond is undefined
        [[unroll]] for (uint g = 0; g < HEADS; g++) {
            acc[g] += e[g * V_KEYS + i] * quad;
        }
    }
}

#include "step_join.glsl"

void main() {
    uint split = gl_WorkGroupID.y;
    uint first = split * CHUNK;
    if (AWAITED_HEADS == 0) {
        load_head(thread / TEAM);
    }
    // The first splits do not wait for the length: they load little that may turn out not to be needed.
    bool early = SHARE == 1 && split < EARLY_SPLITS && AWAITED_HEADS == 0;
    if (early) {
        load_chunk(first, p.capacity, NOWHERE);
    }
    uint start = uint(clamp(has(STEP_DEVICE_START) ? starts[p.start] : p.start, 0, int(p.capacity) - 1));
    uint length = uint(clamp(has(STEP_DEVICE_LENGTH) ? lengths[p.length_at] : int(p.keys), 0, int(p.keys)));
    // One workgroup processes two chunks faster than two workgroups can combine their results.
    uint chunks = (length + CHUNK - 1) / CHUNK;
    uint splits = PARTS == 0 && chunks <= 2 ? 1 : clamp(chunks, 1u, gl_NumWorkGroups.y);
    uint stride = splits * CHUNK;
    if (split >= splits) {
        if (PARTS == 1) {
            store_nothing(split);
        }
        return;
    }
    // If several workgroups share the keys, none of them may read the one that another writes.
    uint skipped = SHARE == 1 ? NOWHERE : start;
    if (!early) {
        load_chunk(first, length, skipped);
    }
    if (AWAITED_HEADS != 0) { // while keys and values are loaded
        do {
            load_head(thread / TEAM);
        } while (head_is_missing(thread / TEAM));
    }
    prepare_heads();
    [[unroll]] for (uint g = 0; g < HEADS; g++) {
        acc[g] = vec4(0.0);
        highest[g] = LOWEST;
        weight[g] = 0.0;
    }
    for (uint at = first; at < length; at += stride) {
        bool more = at + stride < length;
        score_key(at, start);
        if (more) {
            load_keys(at + stride, length, skipped);
        }
        barrier();
        add_values(at, length, start);
        if (more) {
            load_values(at + stride, length, skipped);
            barrier();
        }
    }
    merge_rows(PARTS == 0 && splits == 1);
    // The old keys of this split have been read by now. A start beyond the length is in no split.
    uint writer = start < length ? start / CHUNK % splits : 0;
    if (split == writer && first_head % (SHARE * HEADS) == 0) {
        store_new(start);
    }
    if (PARTS == 0 && splits > 1 && is_last(gl_WorkGroupID.x, splits)) {
        combine(splits);
    }
}
