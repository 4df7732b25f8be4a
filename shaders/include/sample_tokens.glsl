// What the ways of sample.comp share: its settings, tokens and their weights, sums of them, and the draw from
// neighbouring tokens. Include it after the kernel's bindings and parameters.
#ifndef SAMPLE_TOKENS_GLSL
#define SAMPLE_TOKENS_GLSL

#extension GL_EXT_control_flow_attributes : require

#include "hidden.glsl"

uint row, part; // of this workgroup
uint run;       // tokens of a part
uint tokens;    // where the row starts in x
uvec2 top;      // the best token: its key, and its index
shared uvec3 lanes[SAMPLE_MOST_THREADS];

// The row's parameters, loaded before anything that depends on other memory.
struct Settings {
    uint scale, exponent; // of logits: 1/temperature
    uint min_p;           // FARTHEST: none
    uint top_k, top_p;    // 0: none
    uvec2 seed, counter;
    uint step;
};
Settings chosen;

uint setting(uint i) { return settings[p.settings_offset + row * p.settings_row + i * p.settings_stride]; }
uvec2 wide_setting(uint i) { return uvec2(setting(i), setting(i + 1u)); }

void load_settings() {
    chosen = Settings(setting(SAMPLE_SCALE), setting(SAMPLE_EXPONENT), setting(SAMPLE_MIN_P), setting(SAMPLE_TOP_K),
                      setting(SAMPLE_TOP_P), wide_setting(SAMPLE_SEED), wide_setting(SAMPLE_COUNTER),
                      uint(p.has_step != 0u ? steps[p.step_offset] : p.step));
}

bool filters_count() { return chosen.top_k != 0u && chosen.top_k < p.x.cols; }
bool filters_mass() { return chosen.top_p != 0u; }
bool filters() { return filters_count() || filters_mass(); }

// Whether there is anything to draw: neither greedy nor without a token.
bool draws() { return chosen.scale != 0u && top.x < BEYOND_NUMBERS && top.x > UNLIKELIEST; }

// Bounds that the compiler does not know, so that loops stay loops: a stage runs once in a long while, so each of its
// instructions comes from memory.
uint threads() { return HIDDEN(gl_WorkGroupSize.x, p.parts); }

uint token_bits(uint c) { return x_bits(tokens + c * p.x.col_stride); }

uint key_of(uint bits) {
    switch (x_DT) {
    case DT_FLOAT16: return sample_key(floatBitsToUint(float16_to_float(bits)));
    case DT_BFLOAT16: return sample_key(bits << 16);
    default: return sample_key(bits);
    }
}

uint natural_exponent(uint key) { return exponent_below(top.x, key, natural()); }
uvec2 natural_weight(uint key) { return weight_of(natural_exponent(key)); }

// A token's weight at the temperature.
uvec2 weight_at(uint key) {
    uvec2 weight = weight_of(exponent_below(top.x, key, Scale(chosen.scale, int(chosen.exponent))));
    return chosen.min_p != FARTHEST && natural_exponent(key) > chosen.min_p ? uvec2(0u) : weight;
}

// The tokens of a part, in turns of AHEAD for each thread, all of which are loaded before any is used.
const uint AHEAD = 4u;
uint part_begin() { return part * run + gl_LocalInvocationID.x; }
uint part_end() { return min(p.x.cols, (part + 1u) * run); }
uvec4 turn_keys;
void load_turn(uint c, uint apart, uint end) {
    [[unroll]] for (uint i = 0u; i < AHEAD; i++) {
        turn_keys[i] = token_bits(min(c + i * apart, end - 1u));
    }
}
void load_first_turn() { load_turn(part_begin(), gl_WorkGroupSize.x, part_end()); }
uint next_key() {
    uint bits = turn_keys.x;
    turn_keys = turn_keys.yzwx;
    return key_of(bits);
}
// For each token c of the part with its key, after load_first_turn().
#define EACH_TOKEN(c, key, body) \
    for (uint first = part_begin(), end = part_end(); first < end; first += AHEAD * gl_WorkGroupSize.x) { \
        if (first != part_begin()) { \
            load_turn(first, gl_WorkGroupSize.x, end); \
        } \
        [[dont_unroll]] for (uint c = first; c < min(end, first + AHEAD * gl_WorkGroupSize.x); c += gl_WorkGroupSize.x) { \
            uint key = next_key(); \
            body \
        } \
    }

// Sums of a count and a weight over the threads up to this one; lanes holds those of all threads.
uvec3 plus(uvec3 a, uvec3 b) { return uvec3(a.x + b.x, wide_add(a.yz, b.yz)); }
uvec3 scan(uvec3 v) {
    uint t = gl_LocalInvocationID.x;
    barrier();
    lanes[t] = v;
    [[dont_unroll]] for (uint k = 1u, n = threads(); k < n; k *= 2u) {
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
    [[dont_unroll]] for (uint k = threads() / 2u; k > 0u; k /= 2u) {
        barrier();
        if (t < k) {
            v = plus(v, lanes[t + k]);
            lanes[t] = v;
        }
    }
    barrier();
    return lanes[0];
}

// The last token that the filters keep: those with larger keys are kept, and the first `ties` of those with this key,
// each of which weighs `weight`. With key 0 all are kept.
struct Last {
    uint key, ties;
    uvec2 weight;
};
const Last NO_LAST = Last(0u, 0u, uvec2(0u));

// What a token adds to sums: one to those with the last key, or its weight.
uvec3 token_sum(uint key, Last last) {
    if (key <= last.key) {
        return uvec3(uint(key == last.key), 0u, 0u);
    }
    return uvec3(0u, weight_at(key));
}

uvec2 joint_weight(uvec3 sum, Last last) { return wide_add(sum.yz, wide_mul(last.weight, min(sum.x, last.ties))); }

// Whether a target lies between two sums.
bool lies_between(uvec2 target, uvec3 before, uvec3 sum, Last last) {
    return !wide_less(target, joint_weight(before, last)) && wide_less(target, joint_weight(sum, last));
}

uvec2 random_part(uvec2 total) {
    uvec2 step = uvec2(chosen.step, (chosen.step >> 31) != 0u ? 0xffffffffu : 0u);
    uint number = p.own_settings != 0u ? 0u : row;
    uvec4 r = philox(uvec4(wide_add(chosen.counter, step), number, PHILOX_SAMPLE), chosen.seed);
    return wide_mul_high(uvec2(r.y, r.x), total);
}

// Stores the first token of the part at which the running sum exceeds the target. The sum starts from `before`, that of
// earlier parts. If `alone`, the part is the whole row, and the target is drawn here. Threads have neighbouring tokens,
// and go through them twice: for their sums, and one of them for the token. Called by all threads together.
void draw_from_part(Last last, bool alone, uvec2 target, uvec3 before) {
    uint each = (run + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
    uint begin = part * run + gl_LocalInvocationID.x * each, end = min(part_end(), begin + each);
    bool found = false;
    uvec3 sum = uvec3(0u);
    [[dont_unroll]] for (uint pass = 0u; pass < HIDDEN(2u, p.parts); pass++) {
        for (uint first = begin; first < end; first += AHEAD) {
            load_turn(first, 1u, end);
            [[dont_unroll]] for (uint c = first; c < min(end, first + AHEAD); c++) {
                sum = plus(sum, token_sum(next_key(), last));
                if (found && wide_less(target, joint_weight(sum, last))) {
                    y[p.out_offset + row] = c;
                    found = false;
                }
            }
        }
        if (pass == 0u) {
            sum = plus(before, scan(sum));
            if (alone) {
                target = random_part(joint_weight(scanned_all(), last));
            }
            before = plus(before, scanned_before());
            found = lies_between(target, before, sum, last);
            sum = before;
            end = found ? end : begin;
        }
    }
}

#endif
