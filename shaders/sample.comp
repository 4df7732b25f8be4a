// A draw from each row of logits, in stages of one dispatch each, or in one
// dispatch with a workgroup per row. `parts` workgroups share a row.
//   0      each part finds its best token; the histograms are cleared
//   1 - 3  histograms of some bits of the keys of those tokens that may be where
//          top-k or top-p end: how many there are, and their weight at temperature 1
//   4      each part adds up the weights of what is kept of it
//   5      one workgroup draws a part, and the token in it
// A stage after a histogram goes over it from the top to where the targets lie.
// With a small top-k, stage 1 also lists the tokens that it may keep; if these are
// few, stages 2 to 4 have nothing to do, and stage 5 draws from the list.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "tensor.glsl"
#include "rows.glsl"
#include "sample.glsl"
#include "philox.glsl"

layout(local_size_x_id = 0) in; // at most MOST_THREADS, a power of two
#define MOST_THREADS 256
TENSOR_IN(0, x, 1)
layout(set = 0, binding = 1) readonly buffer SettingWords { uint settings[]; };
layout(set = 0, binding = 2) readonly buffer Steps { int steps[]; };
layout(set = 0, binding = 3) coherent buffer Scratch { uint scratch[]; };
layout(set = 0, binding = 4) buffer Out { uint y[]; };
layout(constant_id = 2) const uint STAGE = 0; // SAMPLE_LEVELS + 3: all of them
layout(push_constant) uniform Push { SampleParams p; };

const uint WEIGH = SAMPLE_LEVELS + 1;
const uint PICK = SAMPLE_LEVELS + 2;
const uint ALL = SAMPLE_LEVELS + 3;

uint row, part;         // of this workgroup
uint tokens;            // where the row starts in x
uint state, hist, best; // the row's scratch: SAMPLE_STATE words, SAMPLE_HISTOGRAMS, SAMPLE_PART_WORDS a part
uint top;               // the key of its best token, after stage 0

#include "sample_levels.glsl"

// The larger key, or the smaller index: every thread's gives the workgroup's.
uvec2 best_of(uvec2 v) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    lanes[t].xy = v;
    for (uint k = gl_WorkGroupSize.x / 2u; k > 0u; k /= 2u) {
        barrier();
        if (t < k) {
            uvec2 a = lanes[t].xy, b = lanes[t + k].xy;
            lanes[t].xy = b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a;
        }
    }
    barrier();
    return lanes[0].xy;
}

void find_best() {
    uint words = SAMPLE_PART_WORDS * p.parts + SAMPLE_STATE + SAMPLE_HISTOGRAMS;
    uint share = (words + p.parts - 1u) / p.parts;
    uint t = gl_LocalInvocationID.x, end = part_end();
    load_turn(part_begin(), end);
    for (uint i = part * share + t; i < min(words, (part + 1u) * share); i += gl_WorkGroupSize.x) {
        if (i >= p.parts * 2u) { // those before it are set below
            scratch[best + i] = 0u;
        }
    }
    uvec2 own = uvec2(0u, 0xffffffffu);
    EACH_TOKEN(c, key, end, {
        if (key > own.x) {
            own = uvec2(key, c);
        }
    })
    own = best_of(own);
    if (t == 0u) {
        scratch[best + 2u * part] = own.x;
        scratch[best + 2u * part + 1u] = own.y;
    }
}

// The best of all parts, in the first words of the state for later stages.
void join_best() {
    uvec2 all = uvec2(0u, 0xffffffffu), own = all;
    for (uint i = gl_LocalInvocationID.x; i < p.parts; i += gl_WorkGroupSize.x) {
        own = uvec2(scratch[best + 2u * i], scratch[best + 2u * i + 1u]);
        if (own.x > all.x) {
            all = own;
        }
    }
    if (lists()) {
        find_limit(own);
    }
    all = best_of(all);
    top = all.x;
    // Every part writes the same.
    if (gl_LocalInvocationID.x == 0u) {
        scratch[state] = all.x;
        scratch[state + 1u] = all.y;
    }
}

// Stages 1 to SAMPLE_LEVELS.
void count_level(uint level) {
    if (!(filters_count() || filters_mass())) {
        if (level == 0u) {
            join_best();
        }
        return;
    }
    load_turn(part_begin(), part_end());
    Choice c;
    if (level == 0u) {
        join_best();
    }
    if (!draws()) {
        return;
    }
    if (level > 0u) {
        c = narrow_down(level - 1u);
        if (part == 0u && gl_LocalInvocationID.x == 0u) {
            store_choice(level, c);
        }
    }
    add_histogram(level, c);
}

// What a token adds: one to those with the last key, or its weight.
uvec3 token_sum(uint key, uint last, Scale warm, uint min_p) {
    if (key <= last) {
        return uvec3(uint(key == last), 0u, 0u);
    }
    return uvec3(0u, weight_at(key, warm, min_p));
}

void weigh() {
    if (!draws()) {
        return;
    }
    uint t = gl_LocalInvocationID.x, end = part_end();
    load_turn(part_begin(), end);
    uvec2 last = bottom();
    if (part == 0u && t == 0u) {
        store_choice(SAMPLE_LEVELS, Choice(last.x, last.y, 0u, uvec2(0u)));
    }
    Scale warm = heat();
    uint min_p = setting(SAMPLE_MIN_P);
    uvec3 sum = uvec3(0u);
    EACH_TOKEN(c, key, end, {
        sum = plus(sum, token_sum(key, last.x, warm, min_p));
    })
    sum = total(sum);
    if (t == 0u) {
        uint at = best + 2u * p.parts + 3u * part;
        scratch[at] = sum.x;
        scratch[at + 1u] = sum.y;
        scratch[at + 2u] = sum.z;
    }
}

// The last key's tokens: how many are kept, and what each of them weighs.
struct Ties {
    uint kept;
    uvec2 weight;
};

uvec2 joint_weight(uvec3 sum, Ties ties) { return wide_add(sum.yz, wide_mul(ties.weight, min(sum.x, ties.kept))); }

uvec2 random_part(uvec2 total) {
    uint step = uint(p.has_step != 0u ? steps[p.step_offset] : p.step);
    uvec2 counter = wide_add(uvec2(setting(SAMPLE_COUNTER), setting(SAMPLE_COUNTER + 1u)),
                             uvec2(step, (step >> 31) != 0u ? 0xffffffffu : 0u));
    uint number = p.own_settings != 0u ? 0u : row;
    uvec4 r = philox(uvec4(counter, number, PHILOX_SAMPLE), uvec2(setting(SAMPLE_SEED), setting(SAMPLE_SEED + 1u)));
    return wide_mul_high(uvec2(r.y, r.x), total);
}

shared uint drawn_part;
shared uvec3 drawn_before;

uvec3 part_sum(uint i) {
    uint at = best + 2u * p.parts + 3u * i;
    return uvec3(scratch[at], scratch[at + 1u], scratch[at + 2u]);
}

// Which part the target lies in, and the sums before it.
void draw_part(uvec2 target, Ties ties, uint each, uvec3 before, uvec3 mine) {
    if (wide_less(target, joint_weight(before, ties)) || !wide_less(target, joint_weight(mine, ties))) {
        return;
    }
    uint i = gl_LocalInvocationID.x * each;
    for (;; i++) {
        uvec3 next = plus(before, part_sum(i));
        if (wide_less(target, joint_weight(next, ties))) {
            break;
        }
        before = next;
    }
    drawn_part = i;
    drawn_before = before;
}

void draw_token(uvec2 target, Ties ties, uint last, Scale warm, uint min_p) {
    uint t = gl_LocalInvocationID.x;
    uint end = min(p.x.cols, (drawn_part + 1u) * p.run);
    uint each = (p.run + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    uint first = drawn_part * p.run + t * each;
    uvec3 sum = uvec3(0u);
    for (uint c = first; c < min(end, first + each); c++) {
        sum = plus(sum, token_sum(token_key(c), last, warm, min_p));
    }
    sum = plus(drawn_before, scan(sum));
    uvec3 before = plus(drawn_before, scanned_before());
    if (wide_less(target, joint_weight(before, ties)) || !wide_less(target, joint_weight(sum, ties))) {
        return;
    }
    for (uint c = first; c < min(end, first + each); c++) {
        before = plus(before, token_sum(token_key(c), last, warm, min_p));
        if (wide_less(target, joint_weight(before, ties))) {
            y[p.out_offset + row] = c;
            return;
        }
    }
}

void pick() {
    uint t = gl_LocalInvocationID.x;
    if (!draws()) {
        if (t == 0u) {
            bool good = top < BEYOND_NUMBERS && top > UNLIKELIEST;
            y[p.out_offset + row] = good ? scratch[state + 1u] : 0xffffffffu;
        }
        return;
    }
    Scale warm = heat();
    uint min_p = setting(SAMPLE_MIN_P), n = listed();
    if (n != 0u) {
        draw_listed(n, random_part(filter_list(n, warm, min_p)));
        return;
    }
    Choice c = load_choice(SAMPLE_LEVELS);
    Ties ties = Ties(c.count_left, c.count_key == 0u ? uvec2(0u) : weight_at(c.count_key, warm, min_p));
    uint each = (p.parts + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    uvec3 sum = uvec3(0u);
    for (uint i = t * each; i < min(p.parts, (t + 1u) * each); i++) {
        sum = plus(sum, part_sum(i));
    }
    sum = scan(sum);
    uvec2 target = random_part(joint_weight(scanned_all(), ties));
    draw_part(target, ties, each, scanned_before(), sum);
    barrier();
    draw_token(target, ties, c.count_key, warm, min_p);
}

void run(uint stage) {
    if (stage == 0u) {
        find_best();
    } else if (stage <= SAMPLE_LEVELS) {
        count_level(stage - 1u);
    } else if (stage == WEIGH) {
        weigh();
    } else {
        pick();
    }
}

void main() {
    uint group = workgroup_index();
    uint parts = STAGE == PICK ? 1u : p.parts;
    uint slot = group / parts;
    part = group - slot * parts;
    row = p.first_row + slot;
    if (slot >= p.slots || row >= p.x.rows) {
        return;
    }
    tokens = row_start(p.x, row);
    best = p.scratch_offset + slot * p.scratch_stride;
    state = best + SAMPLE_PART_WORDS * p.parts;
    hist = state + SAMPLE_STATE;
    if (STAGE != ALL && STAGE > 1u) {
        top = scratch[state];
        if (STAGE != PICK && listed() != 0u) {
            return;
        }
    }
    if (STAGE != ALL) {
        run(STAGE);
        return;
    }
    for (uint stage = 0u; stage <= PICK; stage++) {
        run(stage);
        memoryBarrierBuffer();
        barrier();
    }
}
