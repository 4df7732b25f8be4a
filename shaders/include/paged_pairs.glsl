// Prepares a pair of elements of a new token's head for attention over pages: loaded, normed and rotated by one
// thread, with the same bits in every kernel.
//
// Before the include: the tensors q, k, v, q_gain and k_gain, positions[] and freqs[], the constants D, DIMS and FLAGS
// (STEP_*), the push constants p with the fields of PagedHeadsParams that have these names, PREPARED_QUADS, the size of
// heads_s, and what heads_of_sums.glsl expects.
#ifndef PAGED_PAIRS_GLSL
#define PAGED_PAIRS_GLSL

#include "rotary.glsl"
#include "cache_codes.glsl"
#include "heads_of_sums.glsl"

bool has(uint flag) { return (FLAGS & flag) != 0; }

// The threads of a head, the same power of two as in the lowering: one for each pair, and at least 32.
const uint TEAM = D <= 64 ? 32 : D <= 128 ? 64 : D <= 256 ? 128 : 256;

shared vec4 squares_s[PAIR_THREADS / 4];

// 1 / root mean square of a head, of which each thread of a team has a pair. Called by all threads together.
float head_scale(vec2 pair, float eps) {
    uint thread = gl_LocalInvocationIndex;
    precise float square = pair.x * pair.x + pair.y * pair.y;
    squares_s[thread / 4][thread & 3u] = square;
    barrier();
    uint first = thread / TEAM * (TEAM / 4);
    precise vec4 sums = squares_s[first];
    [[unroll]] for (uint i = 1; i < TEAM / 4; i++) {
        sums += squares_s[first + i];
    }
    precise float sum = (sums.x + sums.y) + (sums.z + sums.w);
    return inversesqrt(sum / float(D) + eps);
}

// The elements of a pair: rotated together or, beyond DIMS, just neighbours.
uvec2 pair_at(uint slot) {
    bool split = slot < DIMS / 2 && !has(STEP_TRADITIONAL);
    return split ? uvec2(slot, slot + DIMS / 2) : uvec2(2 * slot, 2 * slot + 1);
}

// The sine and cosine of a pair's angle.
vec2 turn_of(uint slot, uint row) {
    int at = p.position;
    if (has(STEP_DEVICE_POSITION)) {
        at = positions[p.position + (has(STEP_POSITIONS) ? int(row) : 0)];
    }
    precise float position = float(at) * p.rope_scale;
    float angle = has(STEP_FREQS) ? quotient(position, freqs[p.freqs_offset + slot]) : position * inverse_frequency(slot);
    return m_sincos(angle);
}

vec2 rotated(vec2 pair, vec2 turn) {
    precise vec2 r = vec2(pair.x * turn.y - pair.y * turn.x, pair.x * turn.x + pair.y * turn.y);
    return r;
}

// kind: 0 query, 1 key, 2 value; from is where its head begins, and pitch is from row to row. What pair_result takes.
vec2 load_pair(uint kind, uint from, uvec2 at, uint pitch) {
    if (OF_SUMS) {
        return joined_pair(from, at, pitch);
    }
    switch (kind) {
    case 0: return vec2(q_load(from + at.x), q_load(from + at.y));
    case 1: return vec2(k_load(from + at.x), k_load(from + at.y));
    default: return vec2(v_load(from + at.x), v_load(from + at.y));
    }
}

vec2 gain_of(uint kind, uvec2 at) {
    if (kind == 0 && has(STEP_Q_GAIN)) {
        return vec2(q_gain_load(p.q_gain_offset + at.x), q_gain_load(p.q_gain_offset + at.y));
    }
    if (kind == 1 && has(STEP_K_GAIN)) {
        return vec2(k_gain_load(p.k_gain_offset + at.x), k_gain_load(p.k_gain_offset + at.y));
    }
    return vec2(1.0);
}

const uint QUADS = D / 4;
shared vec4 heads_s[PREPARED_QUADS]; // heads that are prepared

void set_head(uint head, uvec2 at, vec2 pair) {
    heads_s[head * QUADS + at.x / 4][at.x & 3u] = pair.x;
    heads_s[head * QUADS + at.y / 4][at.y & 3u] = pair.y;
}

// The codes of four elements of a head in heads_s, and what cache_group gives for their group.
uint head_codes(uint head, uint quad, out vec2 group) {
    uint from = head * QUADS, first = quad / CACHE_QUADS * CACHE_QUADS, most = 0;
    for (uint i = first; i < min(first + CACHE_QUADS, QUADS); i++) {
        most = max(most, magnitude_of(heads_s[from + i]));
    }
    group = cache_group(most);
    return cache_codes(heads_s[from + quad], group);
}

bool is_normed(uint kind) { return kind == 0 ? has(STEP_Q_NORM) : kind == 1 && has(STEP_K_NORM); }

vec2 normed(vec2 pair, float scale, vec2 gain) {
    precise vec2 r = pair * scale * gain;
    return r;
}

#endif
