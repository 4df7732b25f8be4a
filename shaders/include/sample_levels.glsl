// How sample.comp finds where top-k and top-p end: histograms of the tokens'
// keys, some bits at a time, and sums over them from the top. Include it after
// the kernel's bindings, parameters and places in scratch memory.
#ifndef SAMPLE_LEVELS_GLSL
#define SAMPLE_LEVELS_GLSL

#extension GL_EXT_control_flow_attributes : require

shared uint bins[SAMPLE_BIN_WORDS * SAMPLE_BINS];
shared uvec3 lanes[MOST_THREADS];

// A choice of SAMPLE_CHOICE words: how far a level has narrowed down where top-k and
// top-p end. It has the bits of the key so far, and how many tokens, or how much weight,
// are still to be taken from those with these bits; after the last level, the key, and
// how many tokens with this key are kept.
struct Choice {
    uint count_key, count_left;
    uint mass_key;
    uvec2 mass_left;
};

uint setting(uint i) { return settings[p.settings_offset + row * p.settings_row + i * p.settings_stride]; }
bool filters_count() { return setting(SAMPLE_TOP_K) != 0u && setting(SAMPLE_TOP_K) < p.x.cols; }
bool filters_mass() { return setting(SAMPLE_TOP_P) != 0u; }

uint token_bits(uint c) { return x_bits(tokens + c * p.x.col_stride); }

uint key_of(uint bits) {
    switch (x_DT) {
    case DT_FLOAT16: return sample_key(floatBitsToUint(float16_to_float(bits)));
    case DT_BFLOAT16: return sample_key(bits << 16);
    default: return sample_key(bits);
    }
}

uint token_key(uint c) { return key_of(token_bits(c)); }

uint natural_exponent(uint key) { return exponent_below(top, key, natural()); }

uvec2 weight_at(uint key, Scale heat, uint min_p) {
    if (min_p != FARTHEST && natural_exponent(key) > min_p) {
        return uvec2(0u);
    }
    return weight_of(exponent_below(top, key, heat));
}

Scale heat() { return Scale(setting(SAMPLE_SCALE), int(setting(SAMPLE_EXPONENT))); }

// Sums of a count and a weight over the threads up to this one; lanes holds those of all threads.
uvec3 plus(uvec3 a, uvec3 b) { return uvec3(a.x + b.x, wide_add(a.yz, b.yz)); }
uvec3 scan(uvec3 v) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    lanes[t] = v;
    for (uint k = 1u; k < gl_WorkGroupSize.x; k *= 2u) {
        barrier();
        uvec3 left = t >= k ? lanes[t - k] : uvec3(0u);
        barrier();
        v = plus(v, left);
        lanes[t] = v;
    }
    barrier();
    return v;
}
uvec3 scanned_before() { return gl_LocalInvocationID.x == 0u ? uvec3(0u) : lanes[gl_LocalInvocationID.x - 1u]; }
uvec3 scanned_all() { return lanes[gl_WorkGroupSize.x - 1u]; }

// The sum over all threads: every thread gets it.
uvec3 total(uvec3 v) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    lanes[t] = v;
    for (uint k = gl_WorkGroupSize.x / 2u; k > 0u; k /= 2u) {
        barrier();
        if (t < k) {
            v = plus(v, lanes[t + k]);
            lanes[t] = v;
        }
    }
    barrier();
    return lanes[0];
}

// Whether there is anything to draw: neither greedy nor without a token.
bool draws() { return setting(SAMPLE_SCALE) != 0u && top < BEYOND_NUMBERS && top > UNLIKELIEST; }

// The tokens of a part, in turns of AHEAD for each thread, all of which are loaded before any is used. Their loops are
// not unrolled: a stage runs once in a long while, so each of its instructions comes from memory.
const uint AHEAD = 4u;
uint part_begin() { return part * p.run + gl_LocalInvocationID.x; }
uint part_end() { return min(p.x.cols, (part + 1u) * p.run); }
uvec4 turn_keys; // of c, c + 1 and so on, in steps of the workgroup
void load_turn(uint c, uint end) {
    [[unroll]] for (uint i = 0u; i < AHEAD; i++) {
        turn_keys[i] = token_bits(min(c + i * gl_WorkGroupSize.x, end - 1u));
    }
}
uint next_key() {
    uint bits = turn_keys.x;
    turn_keys = turn_keys.yzwx;
    return key_of(bits);
}
// For each token c of the part with its key, after load_turn(part_begin(), end).
#define EACH_TOKEN(c, key, end, body) \
    for (uint first = part_begin(); first < end; first += AHEAD * gl_WorkGroupSize.x) { \
        if (first != part_begin()) { \
            load_turn(first, end); \
        } \
        [[dont_unroll]] for (uint c = first; c < min(end, first + AHEAD * gl_WorkGroupSize.x); \
                             c += gl_WorkGroupSize.x) { \
            uint key = next_key(); \
            body \
        } \
    }

uint level_shift(uint level) { return level == 0u ? 21u : (level == 1u ? 10u : 0u); }
uint level_bins(uint level) { return level == 2u ? SAMPLE_BINS / 2u : SAMPLE_BINS; }
uint level_hist(uint level) { return hist + level * SAMPLE_BIN_WORDS * SAMPLE_BINS; }

Choice load_choice(uint level) {
    uint at = state + SAMPLE_CHOICE * level + 2u; // a level's choice follows two words
    return Choice(scratch[at], scratch[at + 1u], scratch[at + 2u], uvec2(scratch[at + 3u], scratch[at + 4u]));
}

void store_choice(uint level, Choice c) {
    uint at = state + SAMPLE_CHOICE * level + 2u;
    scratch[at] = c.count_key;
    scratch[at + 1u] = c.count_left;
    scratch[at + 2u] = c.mass_key;
    scratch[at + 3u] = c.mass_left.x;
    scratch[at + 4u] = c.mass_left.y;
}

// The probability to keep, of a total weight, rounded up.
uvec2 mass_of(uvec2 total) {
    uint high, low;
    umulExtended(total.x, setting(SAMPLE_TOP_P), high, low);
    uvec2 mass = wide_add(wide_mul(uvec2(total.y, 0u), setting(SAMPLE_TOP_P)), uvec2(high, 0u));
    return low == 0u ? mass : wide_add(mass, uvec2(1u, 0u));
}

#include "sample_list.glsl"

shared Choice found;

// Searches the histogram of a level, from the top, for the targets.
Choice narrow_down(uint level) {
    uint t = gl_LocalInvocationID.x;
    uint each = level_bins(level) / gl_WorkGroupSize.x;
    uint highest = level_bins(level) - 1u - t * each; // bin of the thread, which goes down from there
    barrier();
    for (uint i = t; i < SAMPLE_BIN_WORDS * level_bins(level); i += gl_WorkGroupSize.x) {
        bins[i] = scratch[level_hist(level) + i];
    }
    barrier();
    uvec3 sum = uvec3(0u);
    for (uint i = 0u; i < each; i++) {
        uint at = SAMPLE_BIN_WORDS * (highest - i);
        sum = plus(sum, uvec3(bins[at], bins[at + 1u], bins[at + 2u]));
    }
    sum = scan(sum);
    Choice c;
    if (level == 0u) {
        c = Choice(0u, filters_count() ? setting(SAMPLE_TOP_K) : 0u, 0u,
                   filters_mass() ? mass_of(lists() ? state_mass() : scanned_all().yz) : uvec2(0u));
    } else {
        c = load_choice(level);
    }
    if (t == 0u) {
        found = c;
    }
    barrier();
    uvec3 before = scanned_before();
    if (before.x < c.count_left && c.count_left <= sum.x) {
        uint left = c.count_left - before.x, b = highest;
        for (uint n = bins[SAMPLE_BIN_WORDS * b]; n < left; n = bins[SAMPLE_BIN_WORDS * b]) {
            left -= n;
            b--;
        }
        found.count_key = c.count_key | b << level_shift(level);
        found.count_left = left;
    }
    if (wide_less(before.yz, c.mass_left) && !wide_less(sum.yz, c.mass_left)) {
        uvec2 left = wide_sub(c.mass_left, before.yz);
        uint b = highest;
        for (uint i = 0u; i < each; i++) {
            uint at = SAMPLE_BIN_WORDS * b + 1u;
            uvec2 mass = uvec2(bins[at], bins[at + 1u]);
            if (!wide_less(mass, left)) {
                break;
            }
            left = wide_sub(left, mass);
            b--;
        }
        found.mass_key = c.mass_key | b << level_shift(level);
        found.mass_left = left;
    }
    barrier();
    return found;
}

// Adds atomically to a count and a weight.
#define ADD_TO_BIN(array, at, v) \
    if (v.x != 0u) { \
        atomicAdd(array[at], v.x); \
    } \
    if (v.yz != uvec2(0u)) { \
        uint old = atomicAdd(array[at + 1u], v.y); \
        uint carried = v.z + uint(old + v.y < old); \
        if (carried != 0u) { \
            atomicAdd(array[at + 2u], carried); \
        } \
    }

// Expects the part's first turn of tokens to be loaded.
void add_histogram(uint level, Choice c) {
    uint t = gl_LocalInvocationID.x;
    for (uint i = t; i < SAMPLE_BIN_WORDS * level_bins(level); i += gl_WorkGroupSize.x) {
        bins[i] = 0u;
    }
    if (t == 0u) {
        part_listed = 0u;
    }
    barrier();
    bool counts = filters_count(), masses = filters_mass(), short_list = level == 0u && lists();
    uint known = level == 0u ? 31u : level_shift(level - 1u), end = part_end();
    uvec3 all = uvec3(0u);
    EACH_TOKEN(i, key, end, {
        uvec3 v = uvec3(0u);
        if (counts && (level == 0u || (key ^ c.count_key) >> known == 0u)) {
            v.x = 1u;
        }
        if (masses && (level == 0u || (key ^ c.mass_key) >> known == 0u)) {
            v.yz = weight_of(exponent_below(top, key, natural()));
        }
        if (short_list) {
            all = plus(all, v);
            if (key < limit.x || (key == limit.x && i > limit.y)) {
                continue;
            }
            if (key > UNLIKELIEST) { // others weigh nothing
                list_token(key, i);
            }
        }
        if (v != uvec3(0u)) {
            uint b = SAMPLE_BIN_WORDS * ((key >> level_shift(level)) & (level_bins(level) - 1u));
            ADD_TO_BIN(bins, b, v)
        }
    })
    barrier();
    for (uint b = t; b < level_bins(level); b += gl_WorkGroupSize.x) {
        uvec3 v = uvec3(bins[SAMPLE_BIN_WORDS * b], bins[SAMPLE_BIN_WORDS * b + 1u], bins[SAMPLE_BIN_WORDS * b + 2u]);
        if (v != uvec3(0u)) {
            uint at = level_hist(level) + SAMPLE_BIN_WORDS * b;
            ADD_TO_BIN(scratch, at, v)
        }
    }
    if (short_list && masses) {
        uvec3 v = uvec3(0u, total(all).yz);
        if (t == 0u) {
            uint at = state + SAMPLE_MASS - 1u;
            ADD_TO_BIN(scratch, at, v)
        }
    }
}

// The end of the tokens that are kept: a key, and how many tokens with this key are kept.
uvec2 bottom() {
    if (!filters_count() && !filters_mass()) {
        return uvec2(0u);
    }
    Choice c = narrow_down(SAMPLE_LEVELS - 1u);
    uvec2 by_mass = uvec2(0u);
    if (filters_mass()) {
        by_mass = uvec2(c.mass_key, wide_div_up(c.mass_left, weight_of(natural_exponent(c.mass_key))));
    }
    uvec2 by_count = filters_count() ? uvec2(c.count_key, c.count_left) : uvec2(0u);
    return by_count.x > by_mass.x || (by_count.x == by_mass.x && by_count.y < by_mass.y) ? by_count : by_mass;
}

#endif
