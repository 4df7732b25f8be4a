// Computes those rows of attention over pages that paged_sdpa_coopmat2 has left as NaNs: float16 parts cannot hold the
// infinities and NaNs that they see. They are rare. Each thread looks at one row, and its subgroup computes those found,
// with a key for each lane.
//
// variants: narrow_subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0) in;

#include "tensor.glsl"
#include "quads.glsl"
#include "cache_codes.glsl"
#include "math.glsl"

TENSOR_IN(0, q, 1)
TENSOR_IN(1, k, 2)
TENSOR_IN(2, v, 3)
layout(set = 0, binding = 3) readonly buffer Table { int table[]; };
layout(set = 0, binding = 4) readonly buffer Sequences { int sequences[]; };
layout(set = 0, binding = 5) readonly buffer Lengths { int lengths[]; };
TENSOR_INOUT(6, y, 4)
QUADS_IN(1, k)
QUADS_IN(2, v)
CACHE_LOADS(k)
CACHE_LOADS(v)
CACHE_ELEMENT_LOADS(k)
CACHE_ELEMENT_LOADS(v)
layout(constant_id = 5) const uint V_TURNS = 4; // of an element of a value for each lane
layout(push_constant) uniform Push { PagedSDPAParams p; };

#include "paged_places.glsl"

const float LOG2_E = 1.44269504;
const float LOWEST = -3.4e38; // finite, so that differences are

// A row's query head and the keys that it sees.
struct Row {
    uint q_from, table_row, key_head, keys;
};

Row row_of(uint output_row) {
    uint heads = p.key_heads * p.group, row = output_row / heads, head = output_row % heads;
    uint sequence = uint(sequences[p.sequence_offset + row * p.sequence_stride]);
    int length = clamp(lengths[p.length_offset + row * p.length_stride], 0, int(p.capacity));
    return Row(p.q_offset + row * p.q_strides[0] + head * p.q_strides[1], p.table_offset + sequence * p.table_strides[0],
               head / p.group, sequence < p.sequences ? uint(length) : 0);
}

float score(uint q_from, uint k_from) {
    float sum = 0.0;
    for (uint e = 0; e < p.d; e++) {
        sum += q_load(q_from + e * p.q_strides[2]) * k_cache_load(k_from, e, p.k_strides[3], p.d);
    }
    return sum * (p.scale * LOG2_E);
}

// All lanes of a subgroup together.
void compute_row(uint output_row) {
    Row row = row_of(output_row);
    uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
    float highest = LOWEST, weight = 0.0, sums[V_TURNS];
    [[unroll]] for (uint i = 0; i < V_TURNS; i++) {
        sums[i] = 0.0;
    }
    for (uint key0 = 0; key0 < row.keys; key0 += lanes) {
        uint key = min(key0 + lane, row.keys - 1), number = key / p.page, token = key - number * p.page;
        uint page = uint(table[row.table_row + number * p.table_strides[1]]);
        bool exists = key0 + lane < row.keys && page < p.pages;
        page = min(page, p.pages - 1);
        float s = exists ? score(row.q_from, keys_from(page, row.key_head, token)) : LOWEST;
        uint value = values_from(page, row.key_head, token);
        float top = max(highest, subgroupMax(s)), keep = exp2(highest - top), w = exists ? exp2(s - top) : 0.0;
        highest = top;
        weight = weight * keep + w;
        [[unroll]] for (uint i = 0; i < V_TURNS; i++) {
            sums[i] *= keep;
        }
        for (uint c = 0; c < lanes; c++) {
            float w_c = subgroupShuffle(w, c);
            uint value_c = subgroupShuffle(value, c);
            if (subgroupShuffle(uint(exists), c) != 0) {
                [[unroll]] for (uint i = 0; i < V_TURNS; i++) {
                    sums[i] += w_c * v_cache_load(value_c, min(lane + i * lanes, p.dv - 1), p.v_strides[3], p.dv);
                }
            }
        }
    }
    weight = subgroupAdd(weight);
    float factor = weight == 0.0 ? 0.0 : 1.0 / weight;
    [[unroll]] for (uint i = 0; i < V_TURNS; i++) {
        if (lane + i * lanes < p.dv) {
            y_store(p.out_offset + output_row * p.dv + lane + i * lanes, sums[i] * factor);
        }
    }
}

void main() {
    uint own = workgroup_index() * gl_WorkGroupSize.x + gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
    bool marked = own < p.rows * p.key_heads * p.group;
    marked = marked && is_nan(y_load(p.out_offset + own * p.dv));
    if (subgroupMax(uint(marked)) == 0) {
        return;
    }
    for (uint i = 0; i < gl_SubgroupSize; i++) {
        if (subgroupShuffle(uint(marked), i) != 0) {
            compute_row(subgroupShuffle(own, i));
        }
    }
}
