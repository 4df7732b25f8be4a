// Attention of one row over keys and values in pages. A workgroup has one row,
// up to HEADS query heads that read one key head, and a range of the row's keys:
// each slot of lanes takes BATCH keys at a time, a lane some quads of the head,
// and keeps its own running maximum and sum, merged in the end. How many ranges a
// row has follows from what it sees, KEYS or more for each; of several workgroups,
// the last to finish combines their parts. Workgroups beyond the last range leave.
//
// All loads of a batch are under way together: nothing may branch before them.
//
// variants: narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require

#include "tensor.glsl"
#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, q, 1)
TENSOR_IN(1, k, 2)
TENSOR_IN(2, v, 3)
layout(set = 0, binding = 3) readonly buffer Table { int table[]; };
layout(set = 0, binding = 4) readonly buffer Sequences { int sequences[]; };
layout(set = 0, binding = 5) readonly buffer Lengths { int lengths[]; };
TENSOR_OUT(6, y, 4)
QUADS_IN(1, k)
QUADS_IN(2, v)
layout(set = 0, binding = 7) coherent buffer Parts { float parts[]; };
layout(set = 0, binding = 8) coherent buffer Arrivals { uint arrivals[]; };
layout(constant_id = 5) const uint K_VECTOR = 0; // whether k (v) may be loaded by quads
layout(constant_id = 6) const uint V_VECTOR = 0;
layout(constant_id = 7) const uint K_QUADS = 1; // of a lane
layout(constant_id = 8) const uint V_QUADS = 1;
layout(constant_id = 9) const uint HEADS = 1;
layout(constant_id = 10) const uint BATCH = 4;
layout(constant_id = 11) const uint ALIGNED = 0; // whether a batch is never of two pages
layout(constant_id = 12) const uint KEYS = 256;  // of a range, unless there are too many
#define SLOT_SPEC 13
#include "slots.glsl"
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

layout(push_constant) uniform Push { PagedSDPAParams p; };

#include "last_arrival.glsl"

const float LOG2_E = 1.44269504;
const float LOWEST = -3.4e38; // stands for a score that does not exist; finite, so that differences are
const uint SLOTS = 8;        // at most
const uint MOST_HEADS = 8;   // of HEADS
const uint MOST_SPLITS = 16; // ranges of a row that are combined
const uint DV_CHUNK = 256;   // elements of an output row in one workgroup
const uint COMBINED = 4;     // parts that a thread has under way

shared float slot_highest[SLOTS * MOST_HEADS];
shared float slot_weight[SLOTS * MOST_HEADS];
shared vec4 slot_part[SLOTS * DV_CHUNK / 4];
shared float split_top[HEADS * MOST_SPLITS];
shared float split_weight[HEADS * MOST_SPLITS];

vec4 q_row[HEADS * K_QUADS];
vec4 acc[HEADS * V_QUADS];
float highest[HEADS]; // of the scores so far
float weight[HEADS];  // sum of exp2(score - highest)

// Quad i of the lane, in quads of the head (of the workgroup's part of v's).
uint lane_quad(uint i) { return slot_lane() + i * slot_lanes(); }

// The tokens that the row sees; none where its sequence does not exist.
uint row_length(uint row) {
    uint sequence = uint(sequences[p.sequence_offset + row * p.sequence_stride]);
    if (sequence >= p.sequences) {
        return 0;
    }
    return uint(clamp(lengths[p.length_offset + row * p.length_stride], 0, int(p.capacity)));
}

void load_q(uint row, uint head) {
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        uint from = p.q_offset + row * p.q_strides[0] + (head + h) * p.q_strides[1];
        [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
            vec4 r = vec4(0.0);
            [[unroll]] for (uint c = 0; c < 4; c++) {
                uint d = lane_quad(i) * 4 + c;
                if (d < p.d) {
                    r[c] = q_load(from + d * p.q_strides[2]) * (p.scale * LOG2_E);
                }
            }
            q_row[h * K_QUADS + i] = r;
        }
    }
}

// A lane's quad of a key, or zeros where the head has ended: then it loads another
// one, and nothing waits for knowing which.
vec4 load_k(uint from, uint quad) {
    if (K_VECTOR != 0) {
        vec4 r = k_quad(from + min(quad * 4, p.d - 4));
        return quad * 4 < p.d ? r : vec4(0.0);
    }
    vec4 r = vec4(0.0);
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (quad * 4 + c < p.d) {
            r[c] = k_load(from + (quad * 4 + c) * p.k_strides[3]);
        }
    }
    return r;
}

vec4 load_v(uint from, uint first, uint quad) {
    uint d = first + quad * 4;
    if (V_VECTOR != 0) {
        vec4 r = v_quad(from + min(d, p.dv - 4));
        return quad * 4 < DV_CHUNK && d < p.dv ? r : vec4(0.0);
    }
    vec4 r = vec4(0.0);
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (quad * 4 < DV_CHUNK && d + c < p.dv) {
            r[c] = v_load(from + (d + c) * p.v_strides[3]);
        }
    }
    return r;
}

uint pages_of[BATCH];  // the keys' pages, and
uint tokens_of[BATCH]; // where they are in them

// Finds the keys key..key+BATCH-1; those behind the last are the last.
void find_keys(uint table_row, uint key, uint end) {
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

vec4 keys[BATCH * K_QUADS];
vec4 values[BATCH * V_QUADS];
float scores[BATCH * HEADS];

void load_keys(uint key_head, uint dv_first) {
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        uint page = min(pages_of[j], p.pages - 1);
        uint from = p.k_offset + page * p.k_strides[0] + key_head * p.k_strides[1] + tokens_of[j] * p.k_strides[2];
        [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
            keys[j * K_QUADS + i] = load_k(from, lane_quad(i));
        }
    }
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        uint page = min(pages_of[j], p.pages - 1);
        uint from = p.v_offset + page * p.v_strides[0] + key_head * p.v_strides[1] + tokens_of[j] * p.v_strides[2];
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            values[j * V_QUADS + i] = load_v(from, dv_first, lane_quad(i));
        }
    }
}

const uint SCORES = BATCH * HEADS;

// Adds up the lanes' shares of all scores; every lane gets all sums.
#ifdef SUBGROUP
void sum_scores() {
    if ((SCORES & (SCORES - 1)) != 0 || SCORES > gl_SubgroupSize) {
        [[unroll]] for (uint i = 0; i < SCORES; i++) {
            scores[i] = slot_sum(scores[i]);
        }
        return;
    }
    // Lanes exchange halves of what they have, until each has the sum of one score.
    [[unroll]] for (uint bit = 1; bit < SCORES; bit *= 2) {
        bool upper = (slot_lane() & bit) != 0;
        [[unroll]] for (uint i = 0; i < SCORES / (2 * bit); i++) {
            float kept = upper ? scores[2 * i + 1] : scores[2 * i];
            float given = upper ? scores[2 * i] : scores[2 * i + 1];
            scores[i] = kept + subgroupShuffleXor(given, bit);
        }
    }
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

// Whether key j of the batch exists.
bool seen(uint j, uint key, uint end) { return key + j < end && pages_of[j] < p.pages; }

void add_head(uint h, uint key, uint end) {
    float top = highest[h];
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        top = seen(j, key, end) ? max(top, scores[j * HEADS + h]) : top;
    }
    float keep = exp2(highest[h] - top);
    highest[h] = top;
    weight[h] *= keep;
    [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
        acc[h * V_QUADS + i] *= keep;
    }
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        float e = seen(j, key, end) ? exp2(scores[j * HEADS + h] - top) : 0.0;
        weight[h] += e;
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] += e * values[j * V_QUADS + i];
        }
    }
}

// Adds the keys key..key+BATCH-1 that lie before end. All threads together.
void add_keys(uint table_row, uint key_head, uint dv_first, uint key, uint end) {
    find_keys(table_row, key, end);
    load_keys(key_head, dv_first);
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            float sum = 0.0;
            [[unroll]] for (uint i = 0; i < K_QUADS; i++) {
                sum += dot(q_row[h * K_QUADS + i], keys[j * K_QUADS + i]);
            }
            scores[j * HEADS + h] = sum;
        }
    }
    sum_scores();
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) { // what is in no page may be no number
            values[j * V_QUADS + i] = pages_of[j] < p.pages ? values[j * V_QUADS + i] : vec4(0.0);
        }
    }
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        add_head(h, key, end);
    }
}

// Brings all slots to one maximum; highest and weight are then the workgroup's.
void merge_weights() {
    uint slots = slot_count();
    if (slot_lane() == 0) {
        [[unroll]] for (uint h = 0; h < HEADS; h++) {
            slot_highest[slot_index() * MOST_HEADS + h] = highest[h];
            slot_weight[slot_index() * MOST_HEADS + h] = weight[h];
        }
    }
    barrier();
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        float top = LOWEST;
        [[unroll]] for (uint s = 0; s < SLOTS; s++) {
            top = s < slots ? max(top, slot_highest[s * MOST_HEADS + h]) : top;
        }
        weight[h] = 0.0;
        [[unroll]] for (uint s = 0; s < SLOTS; s++) {
            float keep = exp2(slot_highest[s * MOST_HEADS + h] - top);
            weight[h] += s < slots ? slot_weight[s * MOST_HEADS + h] * keep : 0.0;
        }
        float keep = exp2(highest[h] - top);
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] *= keep;
        }
        highest[h] = top;
    }
}

// Where a range keeps what it has of a head: sums, highest score and weight.
uint part_of(uint output_row, uint split) { return (output_row * gl_NumWorkGroups.z + split) * (p.dv + 2); }

// Sums the slots' parts of a head's output row and stores them, or this range's part of it. All threads together.
void store_head(uint h, uint output_row, uint dv_first, bool is_all) {
    barrier(); // slot_part of the head before has been read
    [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
        if (lane_quad(i) * 4 < DV_CHUNK) {
            slot_part[slot_index() * DV_CHUNK / 4 + lane_quad(i)] = acc[h * V_QUADS + i];
        }
    }
    barrier();
    uint count = min(p.dv - dv_first, DV_CHUNK);
    uint to = part_of(output_row, gl_WorkGroupID.z);
    float factor = weight[h] == 0.0 ? 0.0 : 1.0 / weight[h];
    for (uint d = gl_LocalInvocationIndex; d < count; d += gl_WorkGroupSize.x) {
        float sum = 0.0;
        [[unroll]] for (uint s = 0; s < SLOTS; s++) {
            sum += s < slot_count() ? slot_part[s * DV_CHUNK / 4 + d / 4][d & 3u] : 0.0;
        }
        if (is_all) {
            y_store(p.out_offset + output_row * p.dv + dv_first + d, sum * factor);
        } else {
            parts[to + dv_first + d] = sum;
        }
    }
    if (!is_all && gl_LocalInvocationIndex == 0) { // the same of all that share the row
        parts[to + p.dv] = highest[h];
        parts[to + p.dv + 1] = weight[h];
    }
}

// Brings the ranges' parts to one maximum, adds them up and stores the results. All threads together.
void combine(uint first_row, uint dv_first, uint splits) {
    for (uint i = gl_LocalInvocationIndex; i < HEADS * splits; i += gl_WorkGroupSize.x) {
        uint from = part_of(first_row + i / splits, i % splits) + p.dv;
        split_top[i / splits * MOST_SPLITS + i % splits] = parts[from];
        split_weight[i / splits * MOST_SPLITS + i % splits] = parts[from + 1];
    }
    barrier();
    uint count = min(p.dv - dv_first, DV_CHUNK);
    for (uint i = gl_LocalInvocationIndex; i < HEADS * count; i += gl_WorkGroupSize.x) {
        uint h = i / count, d = dv_first + i % count;
        float top = LOWEST;
        for (uint s = 0; s < splits; s++) {
            top = max(top, split_top[h * MOST_SPLITS + s]);
        }
        float sum = 0.0, all = 0.0;
        for (uint s = 0; s < splits; s += COMBINED) {
            float part[COMBINED];
            [[unroll]] for (uint j = 0; j < COMBINED; j++) {
                part[j] = parts[part_of(first_row + h, min(s + j, splits - 1)) + d];
            }
            [[unroll]] for (uint j = 0; j < COMBINED; j++) {
                uint at = h * MOST_SPLITS + min(s + j, splits - 1);
                float keep = s + j < splits ? exp2(split_top[at] - top) : 0.0;
                all += keep * split_weight[at];
                sum += keep * part[j];
            }
        }
        y_store(p.out_offset + (first_row + h) * p.dv + d, all == 0.0 ? 0.0 : sum / all);
    }
}

void main() {
    uint chunks = (p.dv + DV_CHUNK - 1) / DV_CHUNK;
    uint blocks = p.group / HEADS;
    uint unit = workgroup_index();
    uint dv_first = unit % chunks * DV_CHUNK;
    unit /= chunks;
    uint block = unit % blocks;
    unit /= blocks;
    uint key_head = unit % p.key_heads;
    uint row = unit / p.key_heads;
    if (row >= p.rows) {
        return;
    }
    uint length = row_length(row);
    uint splits = clamp((length + KEYS - 1) / KEYS, 1, gl_NumWorkGroups.z);
    if (gl_WorkGroupID.z >= splits) {
        return;
    }
    uint per = (length + splits - 1) / splits;
    per = (per + BATCH - 1) / BATCH * BATCH;
    uint first = min(length, gl_WorkGroupID.z * per);
    uint end = min(length, first + per);
    uint head = key_head * p.group + block * HEADS;
    load_q(row, head);
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        highest[h] = LOWEST;
        weight[h] = 0.0;
        [[unroll]] for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] = vec4(0.0);
        }
    }
    uint table_row = p.table_offset + sequences[p.sequence_offset + row * p.sequence_stride] * p.table_strides[0];
    for (uint key = first; key < end; key += slot_count() * BATCH) {
        add_keys(table_row, key_head, dv_first, key + slot_index() * BATCH, end);
    }
    merge_weights();
    uint output_row = row * p.key_heads * p.group + head;
    [[unroll]] for (uint h = 0; h < HEADS; h++) {
        store_head(h, output_row + h, dv_first, splits == 1);
    }
    if (splits > 1 && is_last(workgroup_index(), splits)) {
        combine(output_row, dv_first, splits);
    }
}
