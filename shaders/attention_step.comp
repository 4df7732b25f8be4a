// Attention of one new token: RMSNorm of its query and key heads, rotary
// position embedding, the new key and value into the cache, attention over the
// cache. A workgroup does a few query heads of one key head over one range of
// keys; which of the ranges exist follows from the length, which may be known to
// the device alone. Of several workgroups of the same heads the last to arrive
// combines their parts. Loads of the first keys are under way while the heads
// are prepared.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require

#include "tensor.glsl"

layout(local_size_x_id = 0) in; // THREADS
layout(constant_id = 1) const uint DT = DT_FLOAT32;
layout(constant_id = 2) const uint D = 128;      // elements of a head, a multiple of 4
layout(constant_id = 3) const uint HEADS = 2;    // query heads of a workgroup
layout(constant_id = 4) const uint SHARE = 1;    // workgroups that share a key head
layout(constant_id = 5) const uint FLAGS = 0;    // STEP_* of types.h
layout(constant_id = 6) const uint V_LANES = 32; // threads side by side along a value, a power of two
layout(constant_id = 7) const uint CHUNK = 64;   // keys that a workgroup takes at a time: 32 or 64

#define q_DT DT
#define k_DT DT
#define v_DT DT
#define q_gain_DT DT
#define k_gain_DT DT
#define y_DT DT

#define READ_ONLY(slot, name) \
    TENSOR_BLOCKS(slot, name, readonly) \
    TENSOR_LOADS(name)

READ_ONLY(0, q)
READ_ONLY(1, k)
READ_ONLY(2, v)
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
TENSOR_STORES(y)
layout(set = 0, binding = 12) coherent buffer Parts { vec4 parts[]; };
layout(set = 0, binding = 13) coherent buffer Arrivals { uint arrivals[]; };

layout(push_constant) uniform Push { AttentionStepParams p; };

#include "rotary.glsl"

#define THREADS 256
#define TEAM 32 // threads that prepare a head
const float LOG2_E = 1.44269504;
const float LOWEST = -3.4e38;
const uint NOWHERE = 0xffffffffu;

const uint QUADS = D / 4;
const uint SLOTS = (D / 2 + TEAM - 1) / TEAM; // pairs of elements of a head that a thread prepares
const uint K_LANES = THREADS / CHUNK;         // threads that share a key
const uint K_QUADS = (QUADS + K_LANES - 1) / K_LANES;
const bool K_EVEN = QUADS % K_LANES == 0;     // else some of them have less to do
const bool V_EVEN = QUADS == V_LANES;
const uint V_ROWS = THREADS / V_LANES;
const uint V_KEYS = CHUNK / V_ROWS; // values of a thread
const uint HELD = 8;                // quads of parts that a thread loads at once
const uint MOST_SPLITS = 64;

shared vec4 heads_s[(HEADS + 2) * QUADS]; // the queries, the new key, the new value
shared vec4 squares_s[THREADS / 4];
shared vec4 scores_s[HEADS * THREADS / 4]; // K_LANES numbers for each key
shared vec4 rows_s[HEADS * THREADS];
shared vec2 row_stats_s[HEADS * V_ROWS];           // highest score and weight
shared vec4 split_tops_s[HEADS * MOST_SPLITS / 4];    // by head and split
shared vec4 split_weights_s[HEADS * MOST_SPLITS / 4];
shared vec4 split_factors_s[HEADS * MOST_SPLITS / 4]; // exp2(top - highest top)
shared uint arrived_s;

uint thread = gl_LocalInvocationIndex;
uint first_head = gl_WorkGroupID.x * HEADS;
uint kv_head = gl_WorkGroupID.x / SHARE;

bool has(uint flag) { return (FLAGS & flag) != 0; }

// ---- The heads of the new token ----

float first_of[SLOTS], second_of[SLOTS]; // the pairs
float first_gain[SLOTS], second_gain[SLOTS];

// The elements of a pair: rotated together, or, behind p.dims, just neighbours.
uvec2 pair_at(uint slot) {
    bool split = slot < p.dims / 2 && !has(STEP_TRADITIONAL);
    return split ? uvec2(slot, slot + p.dims / 2) : uvec2(2 * slot, 2 * slot + 1);
}

uint pair_slot(uint i) { return thread % TEAM + i * TEAM; }

// job: one of the HEADS query heads, then the key, then the value.
void load_head(uint job) {
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        first_gain[i] = second_gain[i] = 1.0;
        first_of[i] = second_of[i] = 0.0;
        if (pair_slot(i) >= D / 2) {
            continue;
        }
        uvec2 at = pair_at(pair_slot(i));
        if (job < HEADS) {
            uint from = p.q_offset + (first_head + job) * p.q_stride;
            first_of[i] = q_load(from + at.x);
            second_of[i] = q_load(from + at.y);
            if (has(STEP_Q_GAIN)) {
                first_gain[i] = q_gain_load(p.q_gain_offset + at.x);
                second_gain[i] = q_gain_load(p.q_gain_offset + at.y);
            }
        } else if (job == HEADS) {
            uint from = p.k_offset + kv_head * p.k_stride;
            first_of[i] = k_load(from + at.x);
            second_of[i] = k_load(from + at.y);
            if (has(STEP_K_GAIN)) {
                first_gain[i] = k_gain_load(p.k_gain_offset + at.x);
                second_gain[i] = k_gain_load(p.k_gain_offset + at.y);
            }
        } else if (job == HEADS + 1) {
            uint from = p.v_offset + kv_head * p.v_stride;
            first_of[i] = v_load(from + at.x);
            second_of[i] = v_load(from + at.y);
        }
    }
}

// 1 / root mean square of the team's head. All threads together.
float head_scale(float eps) {
    float squares = 0.0;
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        squares += first_of[i] * first_of[i] + second_of[i] * second_of[i];
    }
    squares_s[thread / 4][thread & 3u] = squares;
    barrier();
    vec4 sum = vec4(0.0);
    [[unroll]] for (uint i = 0; i < TEAM / 4; i++) {
        sum += squares_s[thread / TEAM * (TEAM / 4) + i];
    }
    return inversesqrt(dot(sum, vec4(1.0)) / float(D) + eps);
}

vec2 rotation(uint slot) {
    if (p.dims == 0) {
        return vec2(0.0, 1.0);
    }
    precise float position = float(has(STEP_DEVICE_POSITION) ? positions[p.position] : p.position) * p.rope_scale;
    float angle = 0.0;
    if (has(STEP_FREQS)) {
        angle = quotient(position, freqs[p.freqs_offset + min(slot, p.dims / 2 - 1) * p.freqs_stride]);
    } else {
        angle = position * inverse_frequency(slot);
    }
    return m_sincos(angle);
}

float as_stored(float v) { return bits_to_float(float_to_bits(v, DT), DT); }

vec2 turns[SLOTS]; // (sin, cos) of the pairs

void find_turns() {
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        turns[i] = rotation(pair_slot(i));
    }
}

void store_head(uint job, float scale) {
    bool is_value = job == HEADS + 1;
    [[unroll]] for (uint i = 0; i < SLOTS; i++) {
        uint slot = pair_slot(i);
        if (slot >= D / 2 || job > HEADS + 1) {
            continue;
        }
        float a = first_of[i] * scale * first_gain[i];
        float b = second_of[i] * scale * second_gain[i];
        if (slot < p.dims / 2 && !is_value) {
            float turned = a * turns[i].y - b * turns[i].x;
            b = a * turns[i].x + b * turns[i].y;
            a = turned;
        }
        float factor = p.scale * LOG2_E;
        a = job < HEADS ? a * factor : as_stored(a);
        b = job < HEADS ? b * factor : as_stored(b);
        uvec2 at = pair_at(slot);
        heads_s[job * QUADS + at.x / 4][at.x & 3u] = a;
        heads_s[job * QUADS + at.y / 4][at.y & 3u] = b;
    }
}

void prepare_heads() {
    uint job = thread / TEAM;
    find_turns(); // while the heads are on their way
    bool norm = job < HEADS ? has(STEP_Q_NORM) : job == HEADS && has(STEP_K_NORM);
    float scale = head_scale(job < HEADS ? p.q_eps : p.k_eps);
    store_head(job, norm ? scale : 1.0);
    barrier();
}

// ---- The cache ----

uvec4 k_raw[K_QUADS];
uvec4 v_raw[V_KEYS];

uint key_quad(uint i) { return thread % K_LANES + i * K_LANES; }
uint value_quad() { return thread % V_LANES; }
uint value_key(uint i) { return thread / V_LANES * V_KEYS + i; } // of the chunk

vec4 quad_of_bits(uvec4 raw) {
    if (DT == DT_FLOAT32) {
        return uintBitsToFloat(raw);
    }
    return vec4(bits_to_float(raw.x & 0xffffu, DT), bits_to_float(raw.x >> 16, DT),
                bits_to_float(raw.y & 0xffffu, DT), bits_to_float(raw.y >> 16, DT));
}

uint half_bits(float low, float high) { return float_to_bits(low, DT) | (float_to_bits(high, DT) << 16); }

uint key_row(uint key) { return (p.keys_offset + kv_head * p.keys_strides[0] + key * p.keys_strides[1]) / 4; }
uint value_row(uint key) { return (p.values_offset + kv_head * p.values_strides[0] + key * p.values_strides[1]) / 4; }

// Keys first..first+CHUNK-1, but none that is not before end or must not be
// looked at: in its place, some other. What that gives is never used.
uint loaded_key(uint key, uint end, uint skipped) {
    key = min(key, max(end, 1u) - 1u);
    return SHARE != 1 && key == skipped ? (key != 0 ? key - 1 : min(1u, p.capacity - 1)) : key;
}

void load_chunk(uint first, uint end, uint skipped) {
    uint k_from = key_row(loaded_key(first + thread / K_LANES, end, skipped));
    [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
        uint at = k_from + (K_EVEN ? key_quad(i) : min(key_quad(i), QUADS - 1));
        k_raw[i] = DT == DT_FLOAT32 ? keys_32[at] : uvec4(keys_16[at], 0, 0);
    }
    uint quad = V_EVEN ? value_quad() : min(value_quad(), QUADS - 1);
    [[unroll]] for (uint i = 0; i < V_KEYS; i++) {
        uint at = value_row(loaded_key(first + value_key(i), end, skipped)) + quad;
        v_raw[i] = DT == DT_FLOAT32 ? values_32[at] : uvec4(values_16[at], 0, 0);
    }
}

void store_new(uint key) {
    if (thread >= 2 * QUADS) {
        return;
    }
    bool is_value = thread >= QUADS;
    uint at = (is_value ? value_row(key) - QUADS : key_row(key)) + thread;
    vec4 quad = heads_s[HEADS * QUADS + thread];
    if (DT == DT_FLOAT32) {
        uvec4 bits = floatBitsToUint(quad);
        if (is_value) {
            values_32[at] = bits;
        } else {
            keys_32[at] = bits;
        }
        return;
    }
    uvec2 bits = uvec2(half_bits(quad.x, quad.y), half_bits(quad.z, quad.w));
    if (is_value) {
        values_16[at] = bits;
    } else {
        keys_16[at] = bits;
    }
}

// ---- Attention ----

vec4 acc[HEADS];
float highest[HEADS]; // of the scores that a row of threads has seen
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
        quad = key < end ? quad : vec4(0.0); // what lies beyond may be anything
        [[unroll]] for (uint g = 0; g < HEADS; g++) {
            acc[g] += e[g * V_KEYS + i] * quad;
        }
    }
}

void store_quad(uint g, uint quad, vec4 v) {
    uint at = p.out_offset + (first_head + g) * p.out_stride + quad * 4;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        y_store(at + c, v[c]);
    }
}

// Where a split of this workgroup's heads keeps its sums; a quad with highest score and weight of each head follows.
uint part_row(uint split) { return (gl_WorkGroupID.x * gl_NumWorkGroups.y + split) * HEADS * (QUADS + 1); }

// Merges the rows of threads, and stores the result, or this split's part of it.
void merge_rows(bool is_all) {
    [[unroll]] for (uint g = 0; g < HEADS; g++) {
        rows_s[g * THREADS + thread] = acc[g];
        if (value_quad() == 0) {
            row_stats_s[g * V_ROWS + thread / V_LANES] = vec2(highest[g], weight[g]);
        }
    }
    barrier();
    if (thread >= HEADS * QUADS) {
        return;
    }
    uint g = thread / QUADS;
    uint quad = thread % QUADS;
    float top = LOWEST;
    [[unroll]] for (uint r = 0; r < V_ROWS; r++) {
        top = max(top, row_stats_s[g * V_ROWS + r].x);
    }
    vec4 sum = vec4(0.0);
    float all = 0.0;
    [[unroll]] for (uint r = 0; r < V_ROWS; r++) {
        vec2 stats = row_stats_s[g * V_ROWS + r];
        float keep = exp2(stats.x - top);
        all += keep * stats.y;
        sum += keep * rows_s[g * THREADS + r * V_LANES + quad];
    }
    if (is_all) {
        store_quad(g, quad, all == 0.0 ? vec4(0.0) : sum / all);
        return;
    }
    uint row = part_row(gl_WorkGroupID.y);
    parts[row + thread] = sum;
    if (quad == 0) {
        parts[row + HEADS * QUADS + g] = vec4(top, all, 0.0, 0.0);
    }
}

// Orders what the workgroup did with memory before and after.
void workgroup_barrier() {
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

// Whether all other splits of these heads have stored their parts. Leaves the
// counter as it was before the first.
bool is_last(uint splits) {
    workgroup_barrier();
    if (thread == 0) {
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
        arrived_s = atomicAdd(arrivals[gl_WorkGroupID.x], 1);
        memoryBarrier(gl_ScopeDevice, gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease);
    }
    workgroup_barrier();
    bool last = arrived_s == splits - 1;
    if (last && thread == 0) {
        atomicExchange(arrivals[gl_WorkGroupID.x], 0);
    }
    return last;
}

const uint COMBINERS = THREADS / (HEADS * QUADS); // threads that share a quad of the result
vec4 held[HELD];

void hold_parts(uint first, uint splits) {
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        uint split = first + i * COMBINERS;
        held[i] = split < splits ? parts[part_row(split) + thread % (HEADS * QUADS)] : vec4(0.0);
    }
}

// The sum of all weights of head g. Finds the factors of all splits on the way;
// all threads together, of which there is one for each head and split.
float combine_weights(uint splits, uint g) {
    uint head = thread / MOST_SPLITS;
    uint split = thread % MOST_SPLITS;
    vec2 stats = vec2(LOWEST, 0.0);
    if (head < HEADS) {
        if (split < splits) {
            stats = parts[part_row(split) + HEADS * QUADS + head].xy;
        }
        split_tops_s[thread / 4][thread & 3u] = stats.x;
    }
    barrier();
    if (head < HEADS) {
        vec4 tops = vec4(LOWEST);
        [[unroll]] for (uint i = 0; i < MOST_SPLITS / 4; i++) {
            tops = max(tops, split_tops_s[head * MOST_SPLITS / 4 + i]);
        }
        float factor = exp2(stats.x - max(max(tops.x, tops.y), max(tops.z, tops.w)));
        split_factors_s[thread / 4][thread & 3u] = factor;
        split_weights_s[thread / 4][thread & 3u] = factor * stats.y;
    }
    barrier();
    vec4 all = vec4(0.0);
    [[unroll]] for (uint i = 0; i < MOST_SPLITS / 4; i++) {
        all += split_weights_s[g * MOST_SPLITS / 4 + i];
    }
    return dot(all, vec4(1.0));
}

void combine(uint splits) {
    uint g = thread % (HEADS * QUADS) / QUADS;
    uint mine = thread / (HEADS * QUADS);
    hold_parts(mine, splits);
    float all = combine_weights(splits, g);
    vec4 sum = vec4(0.0);
    for (uint first = mine; first < splits; first += HELD * COMBINERS) {
        if (first != mine) {
            hold_parts(first, splits);
        }
        [[unroll]] for (uint i = 0; i < HELD; i++) {
            uint at = g * MOST_SPLITS + min(first + i * COMBINERS, MOST_SPLITS - 1);
            sum += held[i] * split_factors_s[at / 4][at & 3u]; // nothing is held beyond the last split
        }
    }
    rows_s[thread] = sum;
    barrier();
    if (thread < HEADS * QUADS) {
        for (uint i = 1; i < COMBINERS; i++) {
            sum += rows_s[i * HEADS * QUADS + thread];
        }
        store_quad(g, thread % QUADS, all == 0.0 ? vec4(0.0) : sum / all);
    }
}

void main() {
    uint split = gl_WorkGroupID.y;
    load_head(thread / TEAM);
    if (SHARE == 1 && split == 0) {
        load_chunk(0, p.capacity, NOWHERE); // whatever the length turns out to be
    }
    uint start = uint(clamp(has(STEP_DEVICE_START) ? starts[p.start] : p.start, 0, int(p.capacity) - 1));
    uint length = uint(clamp(has(STEP_DEVICE_LENGTH) ? lengths[p.length_at] : int(p.keys), 0, int(p.keys)));
    uint chunks = max((length + CHUNK - 1) / CHUNK, 1u);
    uint each = (chunks + gl_NumWorkGroups.y - 1) / gl_NumWorkGroups.y;
    uint splits = (chunks + each - 1) / each;
    if (split >= splits) {
        return;
    }
    uint first = split * each * CHUNK;
    uint end = min(first + each * CHUNK, length);
    // Where others read the same keys, none may read what one of them writes.
    uint skipped = SHARE == 1 ? NOWHERE : start;
    if (SHARE != 1 || split != 0) {
        load_chunk(first, end, skipped);
    }
    prepare_heads();
    [[unroll]] for (uint g = 0; g < HEADS; g++) {
        acc[g] = vec4(0.0);
        highest[g] = LOWEST;
        weight[g] = 0.0;
    }
    for (uint at = first; at < end; at += CHUNK) {
        if (at != first) {
            load_chunk(at, end, skipped);
        }
        score_key(at, start);
        barrier();
        add_values(at, end, start);
        if (at + CHUNK < end) {
            barrier();
        }
    }
    merge_rows(splits == 1);
    // Old keys of this range are read by now. A start beyond the length is in no range.
    uint writer = start < length ? start / (each * CHUNK) : 0;
    if (split == writer && first_head % (SHARE * HEADS) == 0) {
        store_new(start);
    }
    if (splits > 1 && is_last(splits)) {
        combine(splits);
    }
}
