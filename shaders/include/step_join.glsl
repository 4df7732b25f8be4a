// Part of attention_step: combines the results of threads and workgroups for the same heads.
#ifndef STEP_JOIN_GLSL
#define STEP_JOIN_GLSL

#include "last_arrival.glsl"

void store_quad(uint g, uint quad, vec4 v) {
    uint at = p.out_offset + (first_head + g) * p.out_stride + quad * 4;
    [[unroll]] for (uint c = 0; c < 4; c++) {
        y_store(at + c, v[c]);
    }
}

// Where a split of head g stores its sums, followed by a quad with its highest score and weight.
uint part_row(uint g, uint split) { return ((first_head + g) * gl_NumWorkGroups.y + split) * (QUADS + 1); }

// Stores the result of a split without keys, whose sums are undefined.
void store_nothing(uint split) {
    if (thread < HEADS) {
        parts[part_row(thread, split) + QUADS] = vec4(LOWEST, 0.0, 0.0, 0.0);
    }
}

// Merges the rows of threads, and stores the result, or this split's part of it.
void merge_rows(bool is_all) {
    [[unroll]] for (uint g = 0; g < HEADS; g++) {
        rows_s[g * THREADS + thread] = acc[g];
        if (value_quad() == 0) {
            row_stats_s[g * V_ROWS + thread / V_LANES] = vec2(highest[g], weight[g]);
        }
    }
    barrier();
    if (thread >= HEADS * QUADS) {
        return;
    }
    uint g = thread / QUADS;
    uint quad = thread % QUADS;
    float top = LOWEST;
    [[unroll]] for (uint r = 0; r < V_ROWS; r++) {
        top = max(top, row_stats_s[g * V_ROWS + r].x);
    }
    vec4 sum = vec4(0.0);
    float all = 0.0;
    [[unroll]] for (uint r = 0; r < V_ROWS; r++) {
        vec2 stats = row_stats_s[g * V_ROWS + r];
        float keep = exp2(stats.x - top);
        all += keep * stats.y;
        sum += keep * rows_s[g * THREADS + r * V_LANES + quad];
    }
    if (is_all) {
        store_quad(g, quad, all == 0.0 ? vec4(0.0) : sum / all);
        return;
    }
    uint row = part_row(g, gl_WorkGroupID.y);
    parts[row + quad] = sum;
    if (quad == 0) {
        parts[row + QUADS] = vec4(top, all, 0.0, 0.0);
    }
}

const uint COMBINERS = THREADS / (HEADS * QUADS); // threads that share a quad of the result
vec4 held[HELD];

void hold_parts(uint first, uint splits) {
    uint g = thread % (HEADS * QUADS) / QUADS;
    [[unroll]] for (uint i = 0; i < HELD; i++) {
        uint split = first + i * COMBINERS;
        held[i] = split < splits ? parts[part_row(g, split) + thread % QUADS] : vec4(0.0);
    }
}

// The sum of all weights of head g. It also computes the factors of all splits.
// Called by all threads together; there is one for each head and split.
float combine_weights(uint splits, uint g) {
    uint head = thread / MOST_SPLITS;
    uint split = thread % MOST_SPLITS;
    vec2 stats = vec2(LOWEST, 0.0);
    if (head < HEADS) {
        if (split < splits) {
            stats = parts[part_row(head, split) + QUADS].xy;
        }
        split_tops_s[thread / 4][thread & 3u] = stats.x;
    }
    barrier();
    if (head < HEADS) {
        vec4 tops = vec4(LOWEST);
        [[unroll]] for (uint i = 0; i < MOST_SPLITS / 4; i++) {
            tops = max(tops, split_tops_s[head * MOST_SPLITS / 4 + i]);
        }
        float factor = exp2(stats.x - max(max(tops.x, tops.y), max(tops.z, tops.w)));
        split_factors_s[thread / 4][thread & 3u] = factor;
        split_weights_s[thread / 4][thread & 3u] = factor * stats.y;
    }
    barrier();
    vec4 all = vec4(0.0);
    [[unroll]] for (uint i = 0; i < MOST_SPLITS / 4; i++) {
        all += split_weights_s[g * MOST_SPLITS / 4 + i];
    }
    return dot(all, vec4(1.0));
}

void combine(uint splits) {
    uint g = thread % (HEADS * QUADS) / QUADS;
    uint mine = thread / (HEADS * QUADS);
    hold_parts(mine, splits);
    float all = combine_weights(splits, g);
    vec4 sum = vec4(0.0);
    for (uint first = mine; first < splits; first += HELD * COMBINERS) {
        if (first != mine) {
            hold_parts(first, splits);
        }
        [[unroll]] for (uint i = 0; i < HELD; i++) {
            uint at = g * MOST_SPLITS + min(first + i * COMBINERS, MOST_SPLITS - 1);
            sum += held[i] * split_factors_s[at / 4][at & 3u]; // nothing is stored beyond the last split
        }
    }
    rows_s[thread] = sum;
    barrier();
    if (thread < HEADS * QUADS) {
        for (uint i = 1; i < COMBINERS; i++) {
            sum += rows_s[i * HEADS * QUADS + thread];
        }
        store_quad(g, thread % QUADS, all == 0.0 ? vec4(0.0) : sum / all);
    }
}

#endif
