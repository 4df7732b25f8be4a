// Attention of rows over keys and values in pages. Workgroups beyond the last range of a row return at once.
//
// variants: narrow_subgroup narrow subgroup base
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require

#include "tensor.glsl"
#include "cache_words.glsl"

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
QUAD_WORDS(k)
QUAD_WORDS(v)
CACHE_WORDS(k)
CACHE_WORDS(v)
layout(set = 0, binding = 7) coherent buffer Parts { float parts[]; };
layout(set = 0, binding = 8) coherent buffer Arrivals { uint arrivals[]; };
// Whether k (v) can be loaded in quads, as codes always can; 2: and no lane has one beyond the end of a head.
layout(constant_id = 5) const uint K_VECTOR = 0;
layout(constant_id = 6) const uint V_VECTOR = 0;
#define KEY_SPEC 7
#define SLOT_SPEC 13
layout(push_constant) uniform Push { PagedSDPAParams p; };

const bool CODES = k_DT == DT_UINT8;
#define VALUE_ELEMENTS p.dv
#define SEQUENCE_OF(row) sequences[p.sequence_offset + (row) * p.sequence_stride]
#define LENGTH_OF(row) lengths[p.length_offset + (row) * p.length_stride]
#include "paged_attention.glsl"
#include "paged_places.glsl"

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

// A lane's quad of a key. Beyond the end of the head it loads another one, so that no load depends on a branch.
uvec4 load_k(uint from, uint quad) {
    if (K_VECTOR != 0) {
        return k_cache_words(from, min(quad, p.d / 4 - 1), p.d);
    }
    vec4 r = vec4(0.0);
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (quad * 4 + c < p.d) {
            r[c] = k_load(from + (quad * 4 + c) * p.k_strides[3]);
        }
    }
    return floatBitsToUint(r);
}

vec4 key_quad(uint j, uint i) {
    uvec4 words = key_words[j * K_QUADS + i];
    vec4 r = CODES ? code_values(words.x) : K_VECTOR != 0 ? quad_of_words(k_DT, words) : uintBitsToFloat(words);
    return K_VECTOR == 2 || lane_quad(i) * 4 < p.d ? r : vec4(0.0);
}

float key_scale(uint j, uint i) { return uintBitsToFloat(key_words[j * K_QUADS + i].y); }

uvec4 load_v(uint from, uint first, uint quad) {
    uint d = first + quad * 4;
    if (V_VECTOR != 0) {
        return v_cache_words(from, min(d, p.dv - 4) / 4, p.dv);
    }
    vec4 r = vec4(0.0);
    [[unroll]] for (uint c = 0; c < 4; c++) {
        if (quad * 4 < DV_CHUNK && d + c < p.dv) {
            r[c] = v_load(from + (d + c) * p.v_strides[3]);
        }
    }
    return floatBitsToUint(r);
}

vec4 value_quad(uint j, uint i, uint first) {
    uvec4 words = value_words[j * V_QUADS + i];
    vec4 r = CODES ? code_values(words.x) : V_VECTOR != 0 ? quad_of_words(v_DT, words) : uintBitsToFloat(words);
    return V_VECTOR == 2 || (lane_quad(i) * 4 < DV_CHUNK && first + lane_quad(i) * 4 < p.dv) ? r : vec4(0.0);
}

float value_scale(uint j, uint i) { return uintBitsToFloat(value_words[j * V_QUADS + i].y); }

void main() {
    uint chunks = (p.dv + DV_CHUNK - 1) / DV_CHUNK;
    uint blocks = p.group / HEADS;
    uint unit = workgroup_index();
    uint dv_first = unit % chunks * DV_CHUNK;
    unit /= chunks;
    uint row = unit % p.rows; // adjacent rows, which may belong to one sequence and so read the same keys
    unit /= p.rows;
    uint block = unit % blocks;
    uint key_head = unit / blocks;
    if (key_head >= p.key_heads) {
        return;
    }
    uint length = row_length(row);
    uint splits = splits_of(length);
    if (gl_WorkGroupID.z >= splits) {
        return;
    }
    uint per = keys_of_split(length, splits);
    uint first = min(length, gl_WorkGroupID.z * per);
    uint end = min(length, first + per);
    uint head = key_head * p.group + block * HEADS;
    load_q(row, head);
    begin_sums();
    uint table_row = table_row_of(row);
    for (uint key = first; key < end; key += slot_count() * BATCH) {
        uint own = key + slot_index() * BATCH;
        load_keys(table_row, key_head, dv_first, own, end);
        add_keys(dv_first);
    }
    store_heads(row * p.key_heads * p.group + head, dv_first, splits);
}
