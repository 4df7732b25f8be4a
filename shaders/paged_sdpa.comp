// Attention of one row over keys and values in pages. A workgroup has one row,
// up to HEADS query heads that read one key head, and a range of the row's keys:
// each slot of lanes takes BATCH keys at a time, a lane some quads of the head,
// and keeps its own running maximum and sum, merged in the end. With SPLIT the
// workgroups of a row write unnormalized parts for sdpa_combine. Ranges divide
// what the row sees evenly, so all workgroups of a row have the same work.
//
// variants: narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

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
layout(constant_id = 5) const uint K_VECTOR = 0; // whether k (v) may be loaded by quads
layout(constant_id = 6) const uint V_VECTOR = 0;
layout(constant_id = 7) const uint K_QUADS = 1; // of a lane
layout(constant_id = 8) const uint V_QUADS = 1;
layout(constant_id = 9) const uint HEADS = 1;
layout(constant_id = 10) const uint SPLIT = 0;
#define SLOT_SPEC 11
#include "slots.glsl"

layout(push_constant) uniform Push { PagedSDPAParams p; };

const float LOG2_E = 1.44269504;
const float LOWEST = -3.4e38; // stands for a score that does not exist; finite, so that differences are
const uint NO_PAGE = 0xffffffffu;
const uint BATCH = 4;
const uint SLOTS = 8;      // at most
const uint MOST_HEADS = 8; // of HEADS
const uint DV_CHUNK = 256; // elements of an output row in one workgroup

shared float slot_highest[SLOTS * MOST_HEADS];
shared float slot_weight[SLOTS * MOST_HEADS];
shared vec4 slot_part[SLOTS * DV_CHUNK / 4];

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
    for (uint h = 0; h < HEADS; h++) {
        uint from = p.q_offset + row * p.q_strides[0] + (head + h) * p.q_strides[1];
        for (uint i = 0; i < K_QUADS; i++) {
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

vec4 load_k(uint from, uint quad) {
    vec4 r = vec4(0.0);
    if (K_VECTOR != 0) {
        return quad * 4 < p.d ? k_quad(from + quad * 4) : r;
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (quad * 4 + c < p.d) {
            r[c] = k_load(from + (quad * 4 + c) * p.k_strides[3]);
        }
    }
    return r;
}

vec4 load_v(uint from, uint first, uint quad) {
    vec4 r = vec4(0.0);
    uint d = first + quad * 4;
    if (quad * 4 >= DV_CHUNK || d >= p.dv) {
        return r;
    }
    if (V_VECTOR != 0) {
        return v_quad(from + d);
    }
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (d + c < p.dv) {
            r[c] = v_load(from + (d + c) * p.v_strides[3]);
        }
    }
    return r;
}

// Where the key's page lies in the pool, or NO_PAGE.
uint page_of(uint table_row, uint key) {
    uint page = uint(table[table_row + key / p.page * p.table_strides[1]]);
    return page < p.pages ? page : NO_PAGE;
}

// Adds the keys key..key+BATCH-1 that lie before end. All threads together.
void add_keys(uint table_row, uint key_head, uint dv_first, uint key, uint end) {
    bool seen[BATCH];
    float scores[BATCH * HEADS];
    vec4 values[BATCH * V_QUADS];
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        uint page = key + j < end ? page_of(table_row, key + j) : NO_PAGE;
        seen[j] = page != NO_PAGE;
        uint token = (key + j) % p.page;
        for (uint h = 0; h < HEADS; h++) {
            scores[j * HEADS + h] = 0.0;
        }
        if (seen[j]) {
            uint from = p.k_offset + page * p.k_strides[0] + key_head * p.k_strides[1] + token * p.k_strides[2];
            for (uint i = 0; i < K_QUADS; i++) {
                vec4 k = load_k(from, lane_quad(i));
                for (uint h = 0; h < HEADS; h++) {
                    scores[j * HEADS + h] += dot(q_row[h * K_QUADS + i], k);
                }
            }
        }
        uint from = p.v_offset + page * p.v_strides[0] + key_head * p.v_strides[1] + token * p.v_strides[2];
        for (uint i = 0; i < V_QUADS; i++) {
            values[j * V_QUADS + i] = seen[j] ? load_v(from, dv_first, lane_quad(i)) : vec4(0.0);
        }
    }
    for (uint h = 0; h < HEADS; h++) {
        float top = highest[h];
        [[unroll]] for (uint j = 0; j < BATCH; j++) {
            scores[j * HEADS + h] = slot_sum(scores[j * HEADS + h]);
            top = seen[j] ? max(top, scores[j * HEADS + h]) : top;
        }
        float keep = exp2(highest[h] - top);
        highest[h] = top;
        weight[h] *= keep;
        for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] *= keep;
        }
        [[unroll]] for (uint j = 0; j < BATCH; j++) {
            float e = seen[j] ? exp2(scores[j * HEADS + h] - top) : 0.0;
            weight[h] += e;
            for (uint i = 0; i < V_QUADS; i++) {
                acc[h * V_QUADS + i] += e * values[j * V_QUADS + i];
            }
        }
    }
}

// Brings all slots to one maximum; highest and weight are then the workgroup's.
void merge_weights() {
    uint slots = slot_count();
    if (slot_lane() == 0) {
        for (uint h = 0; h < HEADS; h++) {
            slot_highest[slot_index() * MOST_HEADS + h] = highest[h];
            slot_weight[slot_index() * MOST_HEADS + h] = weight[h];
        }
    }
    barrier();
    for (uint h = 0; h < HEADS; h++) {
        float top = LOWEST;
        for (uint s = 0; s < slots; s++) {
            top = max(top, slot_highest[s * MOST_HEADS + h]);
        }
        weight[h] = 0.0;
        for (uint s = 0; s < slots; s++) {
            weight[h] += slot_weight[s * MOST_HEADS + h] * exp2(slot_highest[s * MOST_HEADS + h] - top);
        }
        float keep = exp2(highest[h] - top);
        for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] *= keep;
        }
        highest[h] = top;
    }
}

// Sums the slots' parts of a head's output row and stores them. All threads together.
void store_head(uint h, uint row, uint dv_first) {
    barrier(); // slot_part of the head before has been read
    for (uint i = 0; i < V_QUADS; i++) {
        if (lane_quad(i) * 4 < DV_CHUNK) {
            slot_part[slot_index() * DV_CHUNK / 4 + lane_quad(i)] = acc[h * V_QUADS + i];
        }
    }
    barrier();
    uint count = min(p.dv - dv_first, DV_CHUNK);
    uint to = p.out_offset + (SPLIT != 0 ? (row * gl_NumWorkGroups.z + gl_WorkGroupID.z) * (p.dv + 2) : row * p.dv);
    float factor = SPLIT != 0 ? 1.0 : weight[h] == 0.0 ? 0.0 : 1.0 / weight[h];
    for (uint d = gl_LocalInvocationIndex; d < count; d += gl_WorkGroupSize.x) {
        float sum = 0.0;
        for (uint s = 0; s < slot_count(); s++) {
            sum += slot_part[s * DV_CHUNK / 4 + d / 4][d & 3u];
        }
        y_store(to + dv_first + d, sum * factor);
    }
    if (SPLIT != 0 && dv_first == 0 && gl_LocalInvocationIndex == 0) {
        y_store(to + p.dv, highest[h]);
        y_store(to + p.dv + 1, weight[h]);
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
    uint turn = slot_count() * BATCH;
    uint per = (length + gl_NumWorkGroups.z - 1) / gl_NumWorkGroups.z;
    per = (per + turn - 1) / turn * turn;
    uint first = min(length, gl_WorkGroupID.z * per);
    uint end = min(length, first + per);
    uint head = key_head * p.group + block * HEADS;
    load_q(row, head);
    for (uint h = 0; h < HEADS; h++) {
        highest[h] = LOWEST;
        weight[h] = 0.0;
        for (uint i = 0; i < V_QUADS; i++) {
            acc[h * V_QUADS + i] = vec4(0.0);
        }
    }
    uint table_row = p.table_offset + sequences[p.sequence_offset + row * p.sequence_stride] * p.table_strides[0];
    for (uint key = first; key < end; key += turn) {
        add_keys(table_row, key_head, dv_first, key + slot_index() * BATCH, end);
    }
    merge_weights();
    for (uint h = 0; h < HEADS; h++) {
        store_head(h, row * p.key_heads * p.group + head + h, dv_first);
    }
}
