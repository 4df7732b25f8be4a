// The heads of new tokens on their way to attention over pages: norm and rotation of
// queries and keys, keys and values to their places. A workgroup takes one head of
// one row; a thread has a pair of its elements.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "tensor.glsl"
#include "math.glsl"

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

layout(push_constant) uniform Push { PagedHeadsParams p; };

#include "rotary.glsl"

bool has(uint flag) { return (FLAGS & flag) != 0; }

shared float squares_s[256];

// 1 / root mean square of the head. All threads together.
float head_scale(vec2 pair, float eps) {
    uint thread = gl_LocalInvocationIndex;
    precise float square = pair.x * pair.x + pair.y * pair.y;
    squares_s[thread] = square;
    barrier();
    for (uint reach = gl_WorkGroupSize.x / 2; reach > 0; reach /= 2) {
        if (thread < reach) {
            squares_s[thread] += squares_s[thread + reach];
        }
        barrier();
    }
    return inversesqrt(squares_s[0] / float(D) + eps);
}

// The elements of a pair: rotated together, or, behind DIMS, just neighbours.
uvec2 pair_at(uint slot) {
    bool split = slot < DIMS / 2 && !has(STEP_TRADITIONAL);
    return split ? uvec2(slot, slot + DIMS / 2) : uvec2(2 * slot, 2 * slot + 1);
}

vec2 rotated(vec2 pair, uint slot, uint row) {
    if (slot >= DIMS / 2) {
        return pair;
    }
    int at = p.position;
    if (has(STEP_DEVICE_POSITION)) {
        at = positions[p.position + (has(STEP_POSITIONS) ? int(row) : 0)];
    }
    precise float position = float(at) * p.rope_scale;
    float angle = has(STEP_FREQS) ? quotient(position, freqs[p.freqs_offset + slot]) : position * inverse_frequency(slot);
    vec2 turn = m_sincos(angle);
    return vec2(pair.x * turn.y - pair.y * turn.x, pair.x * turn.x + pair.y * turn.y);
}

vec2 load_pair(uint kind, uint row, uint head, uvec2 at) {
    if (kind == 0) {
        uint from = p.q_offset + row * p.q_strides[0] + head * p.q_strides[1];
        return vec2(q_load(from + at.x), q_load(from + at.y));
    }
    if (kind == 1) {
        uint from = p.k_offset + row * p.k_strides[0] + head * p.k_strides[1];
        return vec2(k_load(from + at.x), k_load(from + at.y));
    }
    uint from = p.v_offset + row * p.v_strides[0] + head * p.v_strides[1];
    return vec2(v_load(from + at.x), v_load(from + at.y));
}

vec2 gain_of(uint kind, uvec2 at) {
    if (kind == 0 && has(STEP_Q_GAIN)) {
        return vec2(q_gain_load(p.q_gain_offset + at.x), q_gain_load(p.q_gain_offset + at.y));
    }
    if (kind == 1 && has(STEP_K_GAIN)) {
        return vec2(k_gain_load(p.k_gain_offset + at.x), k_gain_load(p.k_gain_offset + at.y));
    }
    return vec2(1.0);
}

void store_pair(uint kind, uint row, uint head, uvec2 at, vec2 pair) {
    if (kind == 0) {
        uint to = p.out_offset + (row * HEADS + head) * D;
        y_store(to + at.x, pair.x);
        y_store(to + at.y, pair.y);
        return;
    }
    uint slot = uint(slots[p.slot_offset + row]); // negative: beyond all places
    if (slot >= p.places) {
        return;
    }
    if (kind == 1) {
        uint to = p.keys_offset + slot / p.page * p.keys_strides[0] + head * p.keys_strides[1] + slot % p.page * p.keys_strides[2];
        keys_store(to + at.x, pair.x);
        keys_store(to + at.y, pair.y);
        return;
    }
    uint to = p.values_offset + slot / p.page * p.values_strides[0] + head * p.values_strides[1] +
              slot % p.page * p.values_strides[2];
    values_store(to + at.x, pair.x);
    values_store(to + at.y, pair.y);
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
    vec2 pair = exists ? load_pair(kind, row, head, at) : vec2(0.0);
    if (kind == 0 ? has(STEP_Q_NORM) : kind == 1 && has(STEP_K_NORM)) {
        float scale = head_scale(pair, kind == 0 ? p.q_eps : p.k_eps);
        precise vec2 normed = pair * scale * gain_of(kind, at);
        pair = normed;
    }
    if (exists) {
        store_pair(kind, row, head, at, kind == 2 ? pair : rotated(pair, slot, row));
    }
}
