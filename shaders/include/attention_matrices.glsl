// What the attention kernels on cooperative matrices share: bindings, the rows of
// q of a workgroup, and the handling of what float16 parts cannot express: scores
// and sums of values that are not finite.
//
// Operands are the float16 parts that sdpa_split made, with an exponent for each
// row. The query heads that read one key head are rows of the same tile,
// adjacent at the same step.
#ifndef ATTENTION_MATRICES_GLSL
#define ATTENTION_MATRICES_GLSL

#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

#include "tensor.glsl"
#include "float16_parts.glsl"
#include "coopmat.glsl"

TENSOR_IN(0, q, 1)
TENSOR_IN(1, k, 2)
TENSOR_IN(2, v, 3)
TENSOR_IN(3, mask, 4)
layout(set = 0, binding = 4) readonly buffer Lengths { int lengths[]; };
TENSOR_OUT(5, y, 5)
layout(set = 0, binding = 6) readonly buffer QParts { uvec4 q_parts[]; };
layout(set = 0, binding = 7) readonly buffer KParts { uvec4 k_parts[]; };
layout(set = 0, binding = 8) readonly buffer VParts { uvec4 v_parts[]; };
layout(set = 0, binding = 9) readonly buffer QExponents { int q_exponents[]; };
layout(set = 0, binding = 10) readonly buffer KExponents { int k_exponents[]; };
layout(set = 0, binding = 11) readonly buffer VExponents { int v_exponents[]; };
layout(constant_id = 6) const uint MASK_KIND = 0;
layout(constant_id = 7) const uint HAS_LENGTH = 0;
layout(constant_id = 8) const uint Q_PARTS = 2;
layout(constant_id = 9) const uint K_PARTS = 2;
layout(constant_id = 10) const uint V_PARTS = 2;
layout(constant_id = 11) const uint K_STEPS = 8; // of 16 elements of q's and k's head
layout(constant_id = 12) const uint V_STEPS = 8; // of v's
layout(constant_id = 13) const uint LANES = 32;  // the size of a subgroup: 32 or 64
layout(constant_id = 14) const uint HAS_RANGES = 0; // whether workgroups share the keys of a row, for sdpa_combine

layout(push_constant) uniform Push { SDPAParams p; };

#include "attention.glsl"

// A row of q: one query of one head.
struct Row {
    uint row; // of the key head's
    uint mask_from;
    uint end; // one past the last key it sees
    uint q_from;
    int q_exponent;
    uint to; // of its result, or of the workgroup's part of it, from out's first element
};

// The part of the work that a workgroup does.
uint rows, batch, key_head; // rows of q for a key head; the key head, of all in the batch
uint k_from, v_from;        // the key head's first elements
uint first_key;             // its first row of parts
uint keys_begin, keys_end;  // the range of its keys; a row may see fewer

Row row_of(uint row, uint length) {
    Row r;
    r.row = row;
    uint i = row / p.group;
    uint head = key_head % (p.heads / p.group) * p.group + row - i * p.group;
    r.mask_from = mask_row(batch, head, i);
    r.end = key_end(length, i);
    r.q_from = p.q_offset + batch * p.q_strides[0] + head * p.q_strides[1] + i * p.q_strides[2];
    r.q_exponent = q_exponents[key_head * rows + row];
    uint number = (batch * p.heads + head) * p.queries + i;
    r.to = p.out_offset +
           (HAS_RANGES != 0 ? (number * gl_NumWorkGroups.z + gl_WorkGroupID.z) * (p.dv + 2) : number * p.dv);
    return r;
}

// Determines the workgroup's part and its first row; rows that see the most keys come first. False: there is nothing to
// do.
bool find_rows(uint tile_rows, out uint row0) {
    rows = p.queries * p.group;
    uint key_heads = p.heads / p.group, all_heads = p.rows / rows, tiles = (rows + tile_rows - 1) / tile_rows;
    uint turn = workgroup_index() / all_heads;
    key_head = workgroup_index() % all_heads;
    batch = key_head / key_heads;
    row0 = (tiles - 1 - turn) * tile_rows;
    uint head0 = key_head % key_heads;
    k_from = p.k_offset + batch * p.k_strides[0] + head0 * p.k_strides[1];
    v_from = p.v_offset + batch * p.v_strides[0] + head0 * p.v_strides[1];
    first_key = key_head * p.keys;
    return turn < tiles;
}

// Determines the range of keys, of those before end, in tiles of `unit`: the workgroup's, or in sdpa_fragments the
// subgroup's.
void find_keys(uint end, uint unit) {
    uint tiles = (end + unit - 1) / unit, ranges = HAS_RANGES != 0 ? gl_NumWorkGroups.z : 1;
    uint range = HAS_RANGES != 0 ? gl_WorkGroupID.z : 0;
    keys_begin = min(tiles * range / ranges * unit, end);
    keys_end = min(tiles * (range + 1) / ranges * unit, end);
}

// Stores what sdpa_combine needs of a part of a row besides the result.
void store_part(Row row, float highest, float weight) {
    y_store(row.to + p.dv, highest);
    y_store(row.to + p.dv + 1, weight);
}

float product(uint q_from, uint k_from) {
    float sum = 0.0;
    for (uint e = 0; e < p.d; e++) {
        sum += q_load(q_from + e * p.q_strides[3]) * k_load(k_from + e * p.k_strides[3]);
    }
    return sum;
}

// The final score of a key, from the product of parts.
float finish_score(Row row, uint key, float s, int exponent) {
    if (key >= row.end) {
        return LOWEST;
    }
    float bias = key_bias(row.mask_from, key);
    if (bias <= LOWEST) {
        return LOWEST;
    }
    int n = row.q_exponent + exponent;
    if (n > SPLIT_NOT_FINITE / 2) {
        s = product(row.q_from, k_from + key * p.k_strides[2]);
    } else {
        s = scale_by(s, max(n, -252));
    }
    return s * (p.scale * LOG2_E) + bias;
}

// The contribution of values that are not finite, of the range's keys, to a result of the row.
float plain_values(Row row, float top, uint e) {
    float sum = 0.0;
    for (uint key = keys_begin; key < min(row.end, keys_end); key++) {
        if (v_exponents[first_key + key] < SPLIT_NOT_FINITE / 2) {
            continue;
        }
        float value = v_load(v_from + key * p.v_strides[2] + e * p.v_strides[3]);
        if (magnitude_bits(value) >= INF_BITS) {
            float s = finish_score(row, key, 0.0, SPLIT_NOT_FINITE);
            sum += s == LOWEST ? 0.0 : exp2(s - top) * value;
        }
    }
    return sum;
}

#endif
