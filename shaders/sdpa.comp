// Attention of one query (and a range of keys) per workgroup, for decoding. A
// slot of lanes processes BATCH keys at a time, each lane some quads of the
// head; each slot has a running maximum and sum of its own, which are merged at
// the end. With HAS_RANGES, several workgroups share the keys of a query, and
// sdpa_combine puts their results together.
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
TENSOR_IN(3, mask, 4)
layout(set = 0, binding = 4) readonly buffer Lengths { int lengths[]; };
TENSOR_OUT(5, y, 5)
QUADS_IN(1, k)
QUADS_IN(2, v)
layout(constant_id = 6) const uint K_VECTOR = 0; // whether k (v) can be loaded in quads
layout(constant_id = 7) const uint V_VECTOR = 0;
layout(constant_id = 8) const uint K_QUADS = 1; // of a lane
layout(constant_id = 9) const uint V_QUADS = 1;
layout(constant_id = 10) const uint MASK_KIND = 0;
layout(constant_id = 11) const uint HAS_LENGTH = 0;
layout(constant_id = 12) const uint HAS_RANGES = 0;
#define SLOT_SPEC 13
#include "slots.glsl"

layout(push_constant) uniform Push { SDPAParams p; };

#include "attention.glsl"

const uint BATCH = 4;
const uint SLOTS = 8;      // at most
const uint DV_CHUNK = 256; // elements of an output row in one workgroup

shared float slot_highest[SLOTS];
shared float slot_weight[SLOTS];
shared vec4 slot_part[SLOTS * DV_CHUNK / 4];

vec4 q_row[K_QUADS];
vec4 acc[V_QUADS];
float highest = LOWEST; // of the scores so far
float weight = 0.0;     // sum of exp2(score - highest)

// Quad i of the lane, in quads of the head (of the workgroup's part of v's).
uint lane_quad(uint i) { return slot_lane() + i * slot_lanes(); }

void load_q(uint from) {
    for (uint i = 0; i < K_QUADS; i++) {
        q_row[i] = vec4(0.0);
        [[unroll]] for (uint c = 0; c < 4; c++) {
            uint d = lane_quad(i) * 4 + c;
            if (d < p.d) {
                q_row[i][c] = q_load(from + d * p.q_strides[3]) * (p.scale * LOG2_E);
            }
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

// Adds those of the keys key..key+BATCH-1 that are below end. Called by all threads together.
void add_keys(uint k_from, uint v_from, uint dv_first, uint mask_from, uint key, uint end) {
    float bias[BATCH];
    vec4 values[BATCH][V_QUADS];
    float scores[BATCH];
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        bias[j] = key + j < end ? key_bias(mask_from, key + j) : LOWEST;
        scores[j] = 0.0;
        for (uint i = 0; i < V_QUADS; i++) {
            values[j][i] = vec4(0.0);
        }
        if (bias[j] != LOWEST) {
            for (uint i = 0; i < K_QUADS; i++) {
                scores[j] += dot(q_row[i], load_k(k_from + (key + j) * p.k_strides[2], lane_quad(i)));
            }
            for (uint i = 0; i < V_QUADS; i++) {
                values[j][i] = load_v(v_from + (key + j) * p.v_strides[2], dv_first, lane_quad(i));
            }
        }
    }
    float top = highest;
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        scores[j] = slot_sum(scores[j]) + bias[j];
        top = bias[j] != LOWEST ? max(top, scores[j]) : top;
    }
    float keep = exp2(highest - top);
    highest = top;
    weight *= keep;
    for (uint i = 0; i < V_QUADS; i++) {
        acc[i] *= keep;
    }
    [[unroll]] for (uint j = 0; j < BATCH; j++) {
        float e = bias[j] != LOWEST ? exp2(scores[j] - top) : 0.0;
        weight += e;
        for (uint i = 0; i < V_QUADS; i++) {
            acc[i] += e * values[j][i];
        }
    }
}

// Scales all slots to one maximum; highest and weight are then those of the workgroup.
void merge_weights() {
    uint slots = slot_count();
    if (slot_lane() == 0) {
        slot_highest[slot_index()] = highest;
        slot_weight[slot_index()] = weight;
    }
    barrier();
    float top = LOWEST;
    for (uint s = 0; s < slots; s++) {
        top = max(top, slot_highest[s]);
    }
    weight = 0.0;
    for (uint s = 0; s < slots; s++) {
        weight += slot_weight[s] * exp2(slot_highest[s] - top);
    }
    float keep = exp2(highest - top);
    for (uint i = 0; i < V_QUADS; i++) {
        acc[i] *= keep;
    }
    highest = top;
}

// Sums the slots' parts of the output row and stores them.
void store_row(uint row, uint dv_first) {
    for (uint i = 0; i < V_QUADS; i++) {
        if (lane_quad(i) * 4 < DV_CHUNK) {
            slot_part[slot_index() * DV_CHUNK / 4 + lane_quad(i)] = acc[i];
        }
    }
    barrier();
    uint count = min(p.dv - dv_first, DV_CHUNK);
    uint to = p.out_offset +
              (HAS_RANGES != 0 ? (row * gl_NumWorkGroups.z + gl_WorkGroupID.z) * (p.dv + 2) : row * p.dv);
    bool sees_none = weight == 0.0; // sums are NaN then where values are not finite
    float factor = 1.0 / weight;
    for (uint d = gl_LocalInvocationIndex; d < count; d += gl_WorkGroupSize.x) {
        float sum = 0.0;
        for (uint s = 0; s < slot_count(); s++) {
            sum += slot_part[s * DV_CHUNK / 4 + d / 4][d & 3u];
        }
        y_store(to + dv_first + d, sees_none ? 0.0 : sum * factor);
    }
    if (HAS_RANGES != 0 && dv_first == 0 && gl_LocalInvocationIndex == 0) {
        y_store(to + p.dv, highest);
        y_store(to + p.dv + 1, weight);
    }
}

void main() {
    uint chunks = (p.dv + DV_CHUNK - 1) / DV_CHUNK;
    uint dv_first = workgroup_index() % chunks * DV_CHUNK;
    uint row = workgroup_index() / chunks;
    uint head = row / p.queries;
    uint i = row - head * p.queries;
    uint batch = head / p.heads;
    head -= batch * p.heads;
    if (row >= p.rows) {
        return;
    }
    uint end = key_end(key_length(), i);
    uint per = (end + gl_NumWorkGroups.z - 1) / gl_NumWorkGroups.z;
    uint turn = slot_count() * BATCH;
    per = (per + turn - 1) / turn * turn;
    uint first = min(end, gl_WorkGroupID.z * per);
    end = min(end, first + per);
    load_q(p.q_offset + batch * p.q_strides[0] + head * p.q_strides[1] + i * p.q_strides[2]);
    for (uint j = 0; j < V_QUADS; j++) {
        acc[j] = vec4(0.0);
    }
    uint k_from = p.k_offset + batch * p.k_strides[0] + head / p.group * p.k_strides[1];
    uint v_from = p.v_offset + batch * p.v_strides[0] + head / p.group * p.v_strides[1];
    for (uint key = first; key < end; key += turn) {
        add_keys(k_from, v_from, dv_first, mask_row(batch, head, i), key + slot_index() * BATCH, end);
    }
    merge_weights();
    store_row(row, dv_first);
}
