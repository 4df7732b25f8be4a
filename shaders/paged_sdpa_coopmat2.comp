// Attention over pages of many rows of few sequences, as paged_sdpa, on cooperative matrices: rows of one sequence that
// follow each other share the loads of its keys and values. A workgroup takes a range of the keys (PAGED_RANGES), KEYS at
// a time from its first on, so that a row's result depends neither on the other rows nor on its tile. Without ranges,
// the tile of the last rows would take all keys in turn while most of the device has nothing to do.
//
// What a row's ranges give is put together by paged_sdpa_combine. Rows that see a number which is not finite are marked,
// and computed there.
//
// NVIDIA's driver keeps the matrices in registers only if the loops around them are in main, or in a function that main
// calls, and if there is no loop over keys other than this one; otherwise in memory, which takes 2.5 times as long.
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
layout(set = 0, binding = 6) writeonly buffer Parts { vec4 parts[]; };
QUADS_IN(0, q)
QUADS_IN(1, k)
QUADS_IN(2, v)
CACHE_LOADS(k)
CACHE_LOADS(v)
layout(constant_id = 4) const uint K_VECTOR = 0; // whether k (v) may be loaded by quads; codes always
layout(constant_id = 5) const uint V_VECTOR = 0;
layout(constant_id = 6) const uint Q_PARTS = 2;
layout(constant_id = 7) const uint K_PARTS = 2;
layout(constant_id = 8) const uint V_PARTS = 2;
layout(constant_id = 9) const uint W_PARTS = 2; // of the softmax's weights
layout(constant_id = 10) const uint K_STEPS = 8; // of 16 elements of q's and k's head
layout(constant_id = 11) const uint V_STEPS = 8; // of v's
layout(constant_id = 12) const uint WAVES = 8;   // subgroups
layout(constant_id = 13) const uint KEYS = 32;   // at a time
layout(constant_id = 14) const uint TOKENS = 64; // rows of a workgroup, at most
layout(constant_id = 15) const uint Q_VECTOR = 0;

layout(push_constant) uniform Push { PagedSDPAParams p; };

const uint LANES = 32;
const float LOWEST = -3.4e38; // stands for a score that does not exist; finite, so that differences are
const int KEY_ABSENT = 1 << 24; // the exponent of a key in a page that does not exist
const uint Q_TILE = WAVES * 16 * (K_STEPS * 2 + 1);
#define LEAST_TILE Q_TILE // q goes through there

#include "log2_e.glsl"
#include "attention_registers.glsl"
#include "paged_places.glsl"

const uint AT_ONCE = THREADS / LANES_OF_ROW; // keys that all threads load at once
const uint TURNS = KEYS / AT_ONCE;
const uint PART_QUADS = (V_STEPS * FRAGMENT + PAGED_PART_STATS) / 4;

#include "paged_tiles.glsl"

shared int row_exponents[TILE]; // of the rows' queries

uint wave_row;   // the subgroup's first one
uint begin, end; // of the range, as far as any row sees it

uint run() { return gl_LocalInvocationIndex % LANES_OF_ROW; } // of 8 elements, the thread's

uint q_from(uint r) {
    uint row = first + r / p.group, head = key_head * p.group + r % p.group;
    return p.q_offset + row * p.q_strides[0] + head * p.q_strides[1];
}

// Beyond the end of the head it loads other elements instead, so that no load depends on a branch.
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

// The subgroup's rows of q as matrices. Called by all threads together.
void load_queries() {
    const uint ROWS = FRAGMENT * LANES_OF_ROW / LANES; // of a lane
    vec4 a[ROWS], b[ROWS];
    uint own = wave_row + gl_SubgroupInvocationID / LANES_OF_ROW; // and every second one after it
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
        subgroupBarrier(); // each subgroup has a place of its own
        [[unroll]] for (uint t = 0; t < ROWS; t++) {
            if (run() < K_RUNS) {
                put_run((own + t * (LANES / LANES_OF_ROW)) * K_PITCH + run(), part, a[t], b[t]);
            }
        }
        subgroupBarrier();
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
        uint from = keys_from(min(pages[t], p.pages - 1), key_head, tokens[t]);
        next[2 * t] = load_k4(from, run() * 8);
        next[2 * t + 1] = load_k4(from, run() * 8 + 4);
        absent_k |= uint(pages[t] >= p.pages) << t;
    }
}

void load_values() {
    absent_v = 0;
    [[unroll]] for (uint t = 0; t < TURNS; t++) {
        uint from = values_from(min(pages[t], p.pages - 1), key_head, tokens[t]);
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

float special_score(const in uint r, const in uint c, const in float s, const in uint key0) {
    uint at = wave_row + r, key = key0 + c;
    int exponent = key_exponents[key % KEYS];
    if (key >= row_ends[at] || exponent == KEY_ABSENT) {
        return LOWEST;
    }
    return scale_by(s, clamp(row_exponents[at] + exponent, -252, 252)) * (p.scale * LOG2_E);
}

// Whether any row sees a key of the range. Called by all threads together.
shared uint reached;
bool is_reached() {
    if (begin == 0) {
        return true;
    }
    reached = 0;
    barrier();
    for (uint row = gl_LocalInvocationIndex; row < p.rows; row += THREADS) {
        if (lengths[p.length_offset + row * p.length_stride] > int(begin)) {
            reached = 1;
        }
    }
    barrier();
    return reached != 0;
}

// Whether a row of the tile has, or sees in the range, a number that is not finite. Valid after the last tile of keys.
bool sees_not_finite(uint r) { return row_exponents[r] >= SPLIT_NOT_FINITE / 2 || special_from < row_ends[r]; }

void begin_rows() {
    top = MATRIX_C(LOWEST);
    weight = MATRIX_C(0.0);
    sums_exponent = SPLIT_ZERO;
    special_from = NO_KEY;
    [[unroll]] for (uint t = 0; t < V_STEPS; t++) {
        acc[t] = MATRIX_C(0.0);
    }
}

// Whether the tile's products can go to weights by weigh_plain, for rows of the common exponents that see all of it.
bool is_plain_tile() {
    return has_common_tile() && (sums_exponent == SPLIT_ZERO || sums_exponent == -SPLIT_COMMON);
}

#include "paged_parts.glsl"

void main() {
    key_head = gl_WorkGroupID.x;
    wave_row = gl_SubgroupID * FRAGMENT;
    float unit = p.scale * LOG2_E * exp2_int(-2 * SPLIT_COMMON);
    uint range = gl_NumWorkGroups.z - 1 - gl_WorkGroupID.z; // the longest begin first
    begin = PAGED_RANGE_BEGIN(range);
    if (!is_reached()) {
        return;
    }
    for (uint number = gl_WorkGroupID.y; find_tile(number); number += gl_NumWorkGroups.y) {
        end = min(find_ends(), range + 1 == gl_NumWorkGroups.z ? NO_KEY : PAGED_RANGE_BEGIN(range + 1));
        if (end <= begin) {
            continue;
        }
        load_queries();
        uint own = wave_row + gl_SubgroupInvocationID % FRAGMENT;
        bool exists = own < tile_rows;
        uint see_all = subgroupMin(exists ? row_ends[own] : 0xffffffffu); // keys that every row of the subgroup sees
        uint see_any = subgroupMax(row_ends[own]);
        bool plain_rows = subgroupAll(has_common(row_exponents[own]));
        begin_rows();
        find_pages(begin);
        load_keys();
        store_keys();
        load_values();
        find_pages(begin + KEYS);
        for (uint key0 = begin; key0 < end; key0 += KEYS) {
            barrier(); // the values of the last tile are read
            store_values();
            load_keys(); // past the last tile, the last key
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
        store_results(range);
    }
}
