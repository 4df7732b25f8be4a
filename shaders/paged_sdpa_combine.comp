// Puts together what paged_sdpa_coopmat2 found in the ranges of a row's keys. Each subgroup handles a row.
//
// Rows that see infinities or NaNs, which float16 parts cannot hold, are marked there. They are computed here, with a key
// for each lane; they are rare.
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
TENSOR_OUT(6, y, 4)
layout(set = 0, binding = 7) readonly buffer Parts { vec4 parts[]; };
QUADS_IN(1, k)
QUADS_IN(2, v)
CACHE_LOADS(k)
CACHE_LOADS(v)
CACHE_ELEMENT_LOADS(k)
CACHE_ELEMENT_LOADS(v)
layout(constant_id = 5) const uint V_TURNS = 1; // of four elements of a value for each lane
layout(constant_id = 6) const uint RANGES = PAGED_RANGES; // that the capacity has
layout(push_constant) uniform Push { PagedSDPAParams p; };

#include "paged_places.glsl"

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

const uint E_TURNS = V_TURNS * 4; // of an element for each lane

// Called by all lanes of a subgroup together.
void compute_row(uint output_row, Row row) {
    uint lane = gl_SubgroupInvocationID, lanes = gl_SubgroupSize;
    float highest = LOWEST, weight = 0.0, sums[E_TURNS];
    [[unroll]] for (uint i = 0; i < E_TURNS; i++) {
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
        [[unroll]] for (uint i = 0; i < E_TURNS; i++) {
            sums[i] *= keep;
        }
        for (uint c = 0; c < lanes; c++) {
            float w_c = subgroupShuffle(w, c);
            uint value_c = subgroupShuffle(value, c);
            if (subgroupShuffle(uint(exists), c) != 0) {
                [[unroll]] for (uint i = 0; i < E_TURNS; i++) {
                    sums[i] += w_c * v_cache_load(value_c, min(lane + i * lanes, p.dv - 1), p.v_strides[3], p.dv);
                }
            }
        }
    }
    weight = subgroupAdd(weight);
    float factor = weight == 0.0 ? 0.0 : 1.0 / weight;
    [[unroll]] for (uint i = 0; i < E_TURNS; i++) {
        if (lane + i * lanes < p.dv) {
            y_store(p.out_offset + output_row * p.dv + lane + i * lanes, sums[i] * factor);
        }
    }
}

// What the lanes of a subgroup load of a row's ranges.
float tops[RANGES], sums[RANGES], exponents[RANGES];
vec4 values[RANGES * V_TURNS];

// All loads are in flight at once: none depends on a branch, after which a driver would wait for it. For ranges that the
// row does not see, those of the first range are loaded, if it sees that one.
void load_ranges(uint output_row, uint keys) {
    uint heads = p.key_heads * p.group, row = output_row / heads, head = output_row % heads;
    uint quads = (p.dv + 15) / 16 * 4, lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < RANGES; i++) {
        bool sees = PAGED_RANGE_BEGIN(i) < keys;
        uint before = (head / p.group * RANGES + (sees ? i : 0)) * p.rows * p.group;
        uint part = (before + row * p.group + head % p.group) * (quads + PAGED_PART_STATS / 4), stats = part + quads;
        float top = parts[stats + PAGED_PART_TOP / 4].x, exponent = parts[stats + PAGED_PART_EXPONENT / 4].x;
        vec4 sum = parts[stats + PAGED_PART_WEIGHTS / 4 + lane % 4];
        [[unroll]] for (uint t = 0; t < V_TURNS; t++) {
            values[i * V_TURNS + t] = parts[part + min(lane + t * gl_SubgroupSize, quads - 1)];
        }
        tops[i] = sees ? top : LOWEST;
        exponents[i] = sees ? exponent : 0.0;
        sums[i] = sees && lane < 4 ? sum.x + sum.y + sum.z + sum.w : 0.0;
    }
}

int unit; // the exponent of the result's unit, the largest of those of the ranges

// Replaces the sums of weights by factors of the ranges' sums of values, whose sum is then in that unit; false if the row
// sees a number that is not finite. Called by all lanes of a subgroup together.
bool find_factors() {
    float top = LOWEST, all = 0.0, most = -1000.0;
    bool finite = true;
    [[unroll]] for (uint i = 0; i < RANGES; i++) {
        sums[i] = subgroupAdd(sums[i]);
        top = max(top, tops[i]);
        finite = finite && !is_nan(exponents[i]);
        most = sums[i] == 0.0 ? most : max(most, exponents[i]);
    }
    [[unroll]] for (uint i = 0; i < RANGES; i++) {
        float rescale = exp2(tops[i] - top);
        all += sums[i] * rescale;
        sums[i] = sums[i] == 0.0 ? 0.0 : rescale * exp2(exponents[i] - most);
    }
    float factor = all == 0.0 ? 0.0 : 1.0 / all;
    [[unroll]] for (uint i = 0; i < RANGES; i++) {
        sums[i] *= factor;
    }
    unit = int(most);
    return finite;
}

void main() {
    uint output_row = workgroup_index() * gl_NumSubgroups + gl_SubgroupID;
    if (output_row >= p.rows * p.key_heads * p.group) {
        return;
    }
    Row row = row_of(output_row);
    load_ranges(output_row, row.keys);
    if (!find_factors()) {
        compute_row(output_row, row);
        return;
    }
    [[unroll]] for (uint t = 0; t < V_TURNS; t++) {
        uint e = (gl_SubgroupInvocationID + t * gl_SubgroupSize) * 4;
        vec4 sum = vec4(0.0);
        [[unroll]] for (uint i = 0; i < RANGES; i++) {
            sum += sums[i] == 0.0 ? vec4(0.0) : sums[i] * values[i * V_TURNS + t];
        }
        [[unroll]] for (uint c = 0; c < 4; c++) {
            if (e + c < p.dv) {
                y_store(p.out_offset + output_row * p.dv + e + c, scale_by(sum[c], unit));
            }
        }
    }
}
