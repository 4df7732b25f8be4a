// A draw from each row of logits, in three dispatches, or in one with a workgroup for each row. In three dispatches,
// `parts` workgroups share a row (sample_parts.glsl):
//   FIND   each part finds its best tokens, and scratch memory is cleared
//   COUNT  a histogram of the tokens' distances from the best one; with a small top-k, a list of tokens instead; without
//          filters, sums of weights
//   DRAW   where there is a histogram, sums of weights and a list of the tokens among which top-k or top-p ends; the draw
// Where the list gets too long, one workgroup draws alone (sample_keys.glsl).
//
// requires: shared32
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require

#include "tensor.glsl"
#include "rows.glsl"
#include "sample.glsl"
#include "philox.glsl"

layout(local_size_x_id = 0) in; // at most SAMPLE_MOST_THREADS, a power of two
TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) readonly buffer SettingWords { uint settings[]; };
layout(set = 0, binding = 2) readonly buffer Steps { int steps[]; };
layout(set = 0, binding = 3) coherent buffer scratch_Block1 { uint scratch[]; };
layout(set = 0, binding = 3) coherent buffer scratch_Block4 { uvec4 scratch_quads[]; };
layout(set = 0, binding = 4) writeonly buffer Out { uint y[]; };
layout(constant_id = 2) const uint STAGE = 0;
layout(push_constant) uniform Push { SampleParams p; };

const uint FIND = 0, COUNT = 1, DRAW = 2; // SAMPLE_STAGES: one dispatch

#define arrivals scratch
#include "last_arrival.glsl"
#include "sample_tokens.glsl"
#include "sample_bins.glsl"
#include "sample_keys.glsl"
#include "sample_list.glsl"
#include "sample_parts.glsl"

// x and y are the key and the index of the best token of some threads, z is the smallest key among the threads' best
// tokens. This joins two of them.
uvec3 better(uvec3 a, uvec3 b) { return uvec3(is_ahead(a.xy, b.xy) ? a.xy : b.xy, min(a.z, b.z)); }

const uvec3 NO_TOKEN = uvec3(0u, 0xffffffffu, 0xffffffffu);

// The same of all threads of a group, for `groups` groups, a power of two. Afterwards the first `groups` of lanes have the
// results; thread t belongs to group t % groups.
void find_bests(uvec3 v, uint groups) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    lanes[t] = v;
    [[dont_unroll]] for (uint k = threads() / 2u; k >= groups; k /= 2u) {
        barrier();
        if (t < k) {
            lanes[t] = better(lanes[t], lanes[t + k]);
        }
    }
    barrier();
}

void find_bests_of_part(uint groups) {
    uvec3 own = NO_TOKEN;
    EACH_TOKEN(c, key, {
        if (key > own.x) {
            own.xy = uvec2(key, c);
        }
    })
    if (own.x > UNLIKELIEST) {
        own.z = own.x;
    }
    find_bests(own, groups);
}

void find() {
    load_first_turn();
    uint share = (SAMPLE_CLEARED + p.parts - 1u) / p.parts;
    uint cleared = min(SAMPLE_CLEARED, (part + 1u) * share), t = gl_LocalInvocationID.x;
    for (uint i = part * share + t; i < cleared; i += gl_WorkGroupSize.x) {
        scratch[row_words + i] = 0u;
    }
    find_bests_of_part(p.bests);
    if (t < 3u * p.bests) {
        scratch[part_words(part) + t] = lanes[t / 3u][t % 3u];
    }
}

// The best of all parts. Where tokens are listed, it also finds the limit.
uvec3 join_best() {
    uvec3 all = NO_TOKEN, own = all;
    for (uint i = gl_LocalInvocationID.x; i < bests(); i += gl_WorkGroupSize.x) {
        uint at = part_words(i / p.bests) + i % p.bests * 3u;
        own = uvec3(scratch[at], scratch[at + 1u], scratch[at + 2u]);
        all = better(all, own);
    }
    if (lists()) {
        find_limit(own.x);
    }
    find_bests(all, 1u);
    return lanes[0];
}

// Without a draw, the result is the best token, if that is a number.
void store_best() {
    if (part == 0u && gl_LocalInvocationID.x == 0u) {
        y[p.out_offset + row] = top.x < BEYOND_NUMBERS && top.x > UNLIKELIEST ? top.y : 0xffffffffu;
    }
}

void count() {
    load_first_turn();
    part_listed = 0u;
    uvec3 best = join_best();
    top = best.xy;
    set_distances(best.z);
    if (part == 0u && gl_LocalInvocationID.x == 0u) {
        uint state = row_words + SAMPLE_BEST;
        scratch[state] = top.x;
        scratch[state + 1u] = top.y;
        scratch[state + 2u] = floatBitsToUint(bins_of_distance);
    }
    if (!draws()) {
        store_best();
    } else if (!filters()) {
        weigh_part(SAMPLE_BINS);
    } else if (lists()) {
        list_part();
    } else {
        add_part();
    }
}

// Draws the token; part 0 does so alone if there is no histogram.
void draw() {
    if (part != 0u && (lists() || !filters())) {
        return;
    }
    uint state = row_words + SAMPLE_BEST;
    top = uvec2(scratch[state], scratch[state + 1u]);
    if (!draws()) {
        return;
    }
    if (!filters()) {
        load_part_sums();
        barrier();
        draw_part(NO_LAST);
    } else if (lists()) {
        draw_from_list();
    } else {
        load_first_turn();
        load_histogram();
        part_listed = 0u;
        bins_of_distance = uintBitsToFloat(scratch[state + 2u]);
        Bound bound = find_bound();
        weigh_part(bound.bin);
        if (is_last(row_words + SAMPLE_ARRIVED, p.parts)) {
            draw_from_all(bound);
        }
    }
}

void find_and_draw() {
    load_first_turn();
    find_bests_of_part(1u);
    top = lanes[0].xy;
    if (draws()) {
        draw_alone();
    } else {
        store_best();
    }
}

void main() {
    uint slot = workgroup_index() / p.parts;
    part = workgroup_index() - slot * p.parts;
    row = p.first_row + slot;
    if (slot >= p.slots || row >= p.x.rows) {
        return;
    }
    run = p.run;
    tokens = row_start(p.x, row);
    row_words = p.scratch_offset + slot * p.scratch_stride;
    if (STAGE != FIND) {
        load_settings();
    }
    if (STAGE == FIND) {
        find();
    } else if (STAGE == COUNT) {
        count();
    } else if (STAGE == DRAW) {
        draw();
    } else {
        find_and_draw();
    }
}
