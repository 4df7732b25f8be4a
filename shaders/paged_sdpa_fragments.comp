// Attention of rows over keys and values in pages of 8-bit codes, like paged_sdpa, by matrices (paged_fragments.glsl).
//
// variants: narrow_subgroup_khr
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, q, 1)
QUADS_IN(0, q)
const uint k_DT = DT_UINT8, v_DT = DT_UINT8;
TENSOR_BLOCKS(1, k, readonly)
QUADS_IN(1, k)
TENSOR_BLOCKS(2, v, readonly)
QUADS_IN(2, v)
layout(set = 0, binding = 3) readonly buffer Table { int table[]; };
layout(set = 0, binding = 4) readonly buffer Sequences { int sequences[]; };
layout(set = 0, binding = 5) readonly buffer Lengths { int lengths[]; };
TENSOR_OUT(6, y, 2)
layout(set = 0, binding = 7) coherent buffer Parts { float parts[]; };
layout(set = 0, binding = 8) coherent buffer Arrivals { uint arrivals[]; };
#define KEY_SPEC 3
#define SLOT_SPEC 7
const bool NEW_KEYS = false;
const bool VALUES_AHEAD = false; // fewer registers leave room for more workgroups on a compute unit
layout(push_constant) uniform Push { PagedSDPAParams p; };

#define SEQUENCE_OF(row) sequences[p.sequence_offset + (row) * p.sequence_stride]
#define LENGTH_OF(row) lengths[p.length_offset + (row) * p.length_stride]
#include "paged_fragments.glsl"
#include "paged_places.glsl"

uvec4 keys_bits(uint at) { return k_q32.data[at]; }
uvec4 values_bits(uint at) { return v_q32.data[at]; }

uint row, first_head;

vec4 query_quad(uint head, uint quad) {
    uint from = p.q_offset + row * p.q_strides[0] + (first_head + head) * p.q_strides[1];
    return q_quad(from + quad * 4) * (p.scale * LOG2_E);
}

void main() {
    row = workgroup_index() % p.rows; // adjacent rows, which may belong to one sequence and so read the same keys
    uint unit = workgroup_index() / p.rows, blocks = p.group / HEADS;
    uint key_head = unit / blocks;
    if (key_head >= p.key_heads) {
        return;
    }
    uint length = row_length(row), splits = splits_of(length);
    if (gl_WorkGroupID.z >= splits) {
        return;
    }
    uint per = keys_of_split(length, splits);
    uint key = gl_WorkGroupID.z * per + slot_index() * BATCH, end = min(length, (gl_WorkGroupID.z + 1) * per);
    uint table_row = table_row_of(row);
    load_first(table_row, key_head, key, end);
    first_head = key_head * p.group + unit % blocks * HEADS;
    split_queries(); // while keys are loaded
    attend(table_row, key_head, key, end, 0);
    store_heads(row * p.key_heads * p.group + first_head, 0, splits);
}
