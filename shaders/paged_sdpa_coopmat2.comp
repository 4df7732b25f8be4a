// Attention over pages of many rows of few sequences, as paged_sdpa, on cooperative matrices: rows of one sequence that
// follow each other share the loads of its keys and values. Keys are taken by KEYS from the sequence's first on, so that a
// row's result depends neither on the other rows nor on which tile it is in.
//
// variants: narrow_khr_nv2
// requires: float16 subgroup32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_vote : require

layout(local_size_x_id = 0) in;

#include "tensor.glsl"
#include "quads.glsl"
#include "cache_codes.glsl"
#include "split_rows.glsl"
#include "coopmat.glsl"

TENSOR_IN(0, q, 1)
TENSOR_IN(1, k, 2)
TENSOR_IN(2, v, 3)
layout(set = 0, binding = 3) readonly buffer Table { int table[]; };
layout(set = 0, binding = 4) readonly buffer Sequences { int sequences[]; };
layout(set = 0, binding = 5) readonly buffer Lengths { int lengths[]; };
TENSOR_OUT(6, y, 4)
QUADS_IN(0, q)
QUADS_IN(1, k)
QUADS_IN(2, v)
CACHE_LOADS(k)
CACHE_LOADS(v)
CACHE_ELEMENT_LOADS(k)
CACHE_ELEMENT_LOADS(v)
layout(constant_id = 5) const uint K_VECTOR = 0; // whether k (v) may be loaded by quads; codes always
layout(constant_id = 6) const uint V_VECTOR = 0;
layout(constant_id = 7) const uint Q_PARTS = 2;
layout(constant_id = 8) const uint K_PARTS = 2;
layout(constant_id = 9) const uint V_PARTS = 2;
layout(constant_id = 10) const uint W_PARTS = 2; // of the softmax's weights
layout(constant_id = 11) const uint K_STEPS = 8; // of 16 elements of q's and k's head
layout(constant_id = 12) const uint V_STEPS = 8; // of v's
layout(constant_id = 13) const uint WAVES = 8;   // subgroups
layout(constant_id = 14) const uint KEYS = 32;   // at a time
layout(constant_id = 15) const uint TOKENS = 64; // rows of a workgroup, at most
layout(constant_id = 16) const uint Q_VECTOR = 0;

layout(push_constant) uniform Push { PagedSDPAParams p; };

const uint LANES = 32;
const float LOG2_E = 1.44269504;
const float LOWEST = -3.4e38; // stands for a score that does not exist; finite, so that differences are
const int KEY_ABSENT = 1 << 24; // the exponent of a key in a page that does not exist
const uint Q_TILE = WAVES * 16 * (K_STEPS * 2 + 1);
#define LEAST_TILE Q_TILE // q goes through there

#include "attention_registers.glsl"

const uint AT_ONCE = THREADS / LANES_OF_ROW; // keys that all threads load at once
const uint TURNS = KEYS / AT_ONCE;

#include "paged_tiles.glsl"

shared int row_exponents[TILE]; // of the rows' queries

uint wave_row; // the subgroup's first one
uint end;      // one past the last key that any row sees

uint run() { return gl_LocalInvocationIndex % LANES_OF_ROW; } // of 8 elements, the thread's

uint q_from(uint r) {
    uint row = first + r / p.group, head = key_head * p.group + r % p.group;
    return p.q_offset + row * p.q_strides[0] + head * p.q_strides[1];
}

// Where there are no such elements, others come, and nothing waits for knowing that.
vec4 load_q4(uint from, uint e) {
    if (Q_VECTOR != 0) {
        return q_quad(from + min(e, p.d - 4));
    }
    vec4 r;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        r[c] = q_load(from + min(e + c, p.d - 1) * p.q_strides[2]);
    }
    return r;
}

// Elements e to e+3 of a row, as they were loaded, with zeros for those that do not exist.
vec4 existing4(vec4 a, uint e, uint elements, bool exists) {
    [[unroll]] for (uint c = 0; c < 4; c++) {
        a[c] = exists && e + c < elements ? a[c] : 0.0;
    }
    return a;
}

// A part of 8 elements to their place.
void put_run(uint to, uint part, vec4 a, vec4 b) {
    vec4 c = high_part4(a), d = high_part4(b);
    tile[to] = part != 0 ? pack_run(a - c, b - d) : pack_run(c, d);
}

// The subgroup's rows of q as matrices. All threads together.
void load_queries() {
    const uint ROWS = FRAGMENT * LANES_OF_ROW / LANES; // of a lane
    vec4 a[ROWS], b[ROWS];
    uint own = wave_row + gl_SubgroupInvocationID / LANES_OF_ROW; // and every second one behind it
    [[unroll]] for (uint t = 0; t < ROWS; t++) {
        uint from = q_from(min(own + t * (LANES / LANES_OF_ROW), tile_rows - 1));
        a[t] = load_q4(from, run() * 8);
        b[t] = load_q4(from, run() * 8 + 4);
    }
    [[unroll]] for (uint t = 0; t < ROWS; t++) {
        uint row = own + t * (LANES / LANES_OF_ROW);
        a[t] = existing4(a[t], run() * 8, p.d, row < tile_rows);
        b[t] = existing4(b[t], run() * 8 + 4, p.d, row < tile_rows);
        int exponent = scale_run(a[t], b[t]);
        if (run() == 0) {
            row_exponents[row] = exponent;
        }
    }
    [[unroll]] for (uint part = 0; part < Q_PARTS; part++) {
        barrier();
        [[unroll]] for (uint t = 0; t < ROWS; t++) {
            if (run() < K_RUNS) {
                put_run((own + t * (LANES / LANES_OF_ROW)) * K_PITCH + run(), part, a[t], b[t]);
            }
        }
        barrier();
        [[unroll]] for (uint e = 0; e < K_STEPS; e++) {
            matrix_load(q_matrix[part][e], tile, wave_row * K_PITCH + e * 2, K_PITCH);
        }
    }
    barrier();
}

// The thread's keys of the next tile: their pages, and where they are in them.
uint pages[TURNS], tokens[TURNS];
vec4 next[2 * TURNS]; // their elements, or their values'
uint absent_k, absent_v; // a bit for each, whose page does not exist

void find_pages(uint key0) {
    [[unroll]] for (uint t = 0; t < TURNS; t++) {
        uint key = min(key0 + t * AT_ONCE + gl_LocalInvocationIndex / LANES_OF_ROW, end - 1);
        uint number = key / p.page;
        tokens[t] = key - number * p.page;
        pages[t] = uint(table[table_row + number * p.table_strides[1]]);
    }
}

uint k_from(uint page, uint token) {
    return p.k_offset + min(page, p.pages - 1) * p.k_strides[0] + key_head * p.k_strides[1] + token * p.k_strides[2];
}

uint v_from(uint page, uint token) {
    return p.v_offset + min(page, p.pages - 1) * p.v_strides[0] + key_head * p.v_strides[1] + token * p.v_strides[2];
}

vec4 load_k4(uint from, uint e) {
    if (K_VECTOR != 0) {
        return k_cache_quad(from, min(e, p.d - 4) / 4, p.d);
    }
    vec4 r;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        r[c] = k_load(from + min(e + c, p.d - 1) * p.k_strides[3]);
    }
    return r;
}

vec4 load_v4(uint from, uint e) {
    if (V_VECTOR != 0) {
        return v_cache_quad(from, min(e, p.dv - 4) / 4, p.dv);
    }
    vec4 r;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        r[c] = v_load(from + min(e + c, p.dv - 1) * p.v_strides[3]);
    }
    return r;
}

void load_keys() {
    absent_k = 0;
    [[unroll]] for (uint t = 0; t < TURNS; t++) {
        uint from = k_from(pages[t], tokens[t]);
        next[2 * t] = load_k4(from, run() * 8);
        next[2 * t + 1] = load_k4(from, run() * 8 + 4);
        absent_k |= uint(pages[t] >= p.pages) << t;
    }
}

void load_values() {
    absent_v = 0;
    [[unroll]] for (uint t = 0; t < TURNS; t++) {
        uint from = v_from(pages[t], tokens[t]);
        next[2 * t] = load_v4(from, run() * 8);
        next[2 * t + 1] = load_v4(from, run() * 8 + 4);
        absent_v |= uint(pages[t] >= p.pages) << t;
    }
}

void store_keys() {
    [[unroll]] for (uint t = 0; t < TURNS; t++) {
        bool exists = ((absent_k >> t) & 1u) == 0u;
        vec4 a = existing4(next[2 * t], run() * 8, p.d, exists), b = existing4(next[2 * t + 1], run() * 8 + 4, p.d, exists);
        int exponent = scale_run(a, b);
        uint key = t * AT_ONCE + gl_LocalInvocationIndex / LANES_OF_ROW;
        [[unroll]] for (uint part = 0; part < K_PARTS; part++) {
            if (run() < K_RUNS) {
                put_run((part * KEYS + key) * K_PITCH + run(), part, a, b);
            }
        }
        if (run() == 0) {
            key_exponents[key] = exists ? exponent : KEY_ABSENT;
        }
    }
}

void store_values() {
    [[unroll]] for (uint t = 0; t < TURNS; t++) {
        bool exists = ((absent_v >> t) & 1u) == 0u;
        vec4 a = existing4(next[2 * t], run() * 8, p.dv, exists), b = existing4(next[2 * t + 1], run() * 8 + 4, p.dv, exists);
        int exponent = scale_run(a, b);
        uint key = t * AT_ONCE + gl_LocalInvocationIndex / LANES_OF_ROW;
        [[unroll]] for (uint part = 0; part < V_PARTS; part++) {
            if (run() < V_RUNS) {
                put_run(V_FROM + (part * KEYS + key) * V_PITCH + run(), part, a, b);
            }
        }
        if (run() == 0) {
            value_exponents[key] = exponent;
        }
    }
}

// A row's product with a key, and where the key's value is; false: the key does not exist.
bool plain_product(uint r, uint key, out float product, out uint value) {
    uint number = key / p.page, page = uint(table[table_row + number * p.table_strides[1]]);
    uint from = q_from(r), to = k_from(page, key - number * p.page);
    product = 0.0;
    for (uint e = 0; e < p.d; e++) {
        product += q_load(from + e * p.q_strides[2]) * k_cache_load(to, e, p.k_strides[3], p.d);
    }
    value = v_from(page, key - number * p.page);
    return page < p.pages;
}

float special_score(const in uint r, const in uint c, const in float s, const in uint key0) {
    uint at = wave_row + r, key = key0 + c;
    int exponent = key_exponents[key % KEYS];
    if (key >= row_ends[at] || exponent == KEY_ABSENT) {
        return LOWEST;
    }
    int n = row_exponents[at] + exponent;
    float result = scale_by(s, clamp(n, -252, 252));
    if (n > SPLIT_NOT_FINITE / 2) {
        uint value;
        plain_product(at, key, result, value);
    }
    return result * (p.scale * LOG2_E);
}

bool result_at(uint r, out uint to) {
    uint at = wave_row + r, head = key_head * p.group + at % p.group;
    to = p.out_offset + ((first + at / p.group) * p.key_heads * p.group + head) * p.dv;
    return at < tile_rows;
}

float plain_values_of(uint r, float highest, uint e) {
    float sum = 0.0;
    uint at = min(wave_row + r, tile_rows - 1);
    for (uint key = 0; key < row_ends[at]; key++) {
        float product;
        uint value;
        if (plain_product(at, key, product, value)) {
            float element = v_cache_load(value, e, p.v_strides[3], p.dv);
            sum += magnitude_bits(element) < INF_BITS ? 0.0 : exp2(product * (p.scale * LOG2_E) - highest) * element;
        }
    }
    return sum;
}

void begin_rows() {
    top = MATRIX_C(LOWEST);
    weight = MATRIX_C(0.0);
    sums_exponent = SPLIT_ZERO;
    special_values = false;
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        acc[t] = MATRIX_C(0.0);
    }
}

// Whether the tile's products can go to weights by weigh_plain, for rows of the common exponents that see all of it.
bool is_plain_tile() {
    return has_common_tile() && (sums_exponent == SPLIT_ZERO || sums_exponent == -SPLIT_COMMON);
}

void store_results() {
    uint own = gl_SubgroupInvocationID % FRAGMENT;
    uint share = FRAGMENT * FRAGMENT / LANES, c0 = gl_SubgroupInvocationID / FRAGMENT * share;
    uint to;
    bool exists = result_at(own, to);
    barrier();
    matrix_store(top, tile, stage_from(), STAGE_PITCH);
    subgroupBarrier();
    float highest = staged(own, 0);
    subgroupBarrier();
    matrix_store(weight, tile, stage_from(), STAGE_PITCH);
    subgroupBarrier();
    float sum = 0.0;
    [[unroll]] for (uint c = 0; c < FRAGMENT; c++) {
        sum += staged(own, c);
    }
    float factor = sum == 0.0 ? 0.0 : 1.0 / sum;
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        subgroupBarrier();
        matrix_store(acc[t], tile, stage_from(), STAGE_PITCH);
        subgroupBarrier();
        for (uint c = c0; c < c0 + share; c++) {
            uint e = t * FRAGMENT + c;
            if (exists && e < p.dv) {
                float v = scale_by(staged(own, c) * factor, sums_exponent);
                if (special_values) {
                    v += plain_values_of(own, highest, e) * (factor * exp2(WEIGHT_EXPONENT));
                }
                y_store(to + e, v);
            }
        }
    }
}

void attend() {
    uint own = wave_row + gl_SubgroupInvocationID % FRAGMENT;
    bool exists = own < tile_rows;
    uint see_all = subgroupMin(exists ? row_ends[own] : 0xffffffffu); // keys that every row of the subgroup sees
    uint see_any = subgroupMax(row_ends[own]);
    bool plain_rows = subgroupAll(has_common(row_exponents[own]));
    float unit = p.scale * LOG2_E * exp2_int(-2 * SPLIT_COMMON);
    begin_rows();
    if (end > 0) {
        find_pages(0);
        load_keys();
        store_keys();
        load_values();
        find_pages(KEYS);
    }
    for (uint key0 = 0; key0 < end; key0 += KEYS) {
        barrier(); // the values of the last tile are read
        store_values();
        load_keys(); // behind the last tile, the last key
        barrier(); // keys and values are stored
        bool sees = key0 < see_any;
        if (sees) {
            score_tile();
            if (plain_rows && key0 + KEYS <= see_all && is_plain_tile()) {
                weigh_plain(unit);
            } else {
                weigh_special(key0);
            }
        }
        barrier(); // the keys and both exponents are read
        store_keys();
        load_values();
        find_pages(key0 + 2 * KEYS);
        if (sees) {
            add_values();
        }
    }
    store_results();
}

void main() {
    key_head = gl_WorkGroupID.x;
    wave_row = gl_SubgroupID * FRAGMENT;
    for (uint number = gl_WorkGroupID.y; find_tile(number); number += gl_NumWorkGroups.y) {
        end = find_ends();
        load_queries();
        attend();
    }
}
