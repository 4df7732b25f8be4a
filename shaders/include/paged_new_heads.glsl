// Prepares the heads of a new token for kernels that attend in the same dispatch: HEADS queries, the new key and the
// new value, by teams of threads.
//
// Before the include: paged_pairs.glsl and awaited_heads.glsl, and of the push constants p also q_stride, k_stride,
// v_stride, q_eps, k_eps and pages; HEADS; CODES; keys_DT; slots[], PLACES, SEQUENCE_OF a row; store_pair, which writes
// a pair of the new key or value to its place.
#ifndef PAGED_NEW_HEADS_GLSL
#define PAGED_NEW_HEADS_GLSL

// The heads that this thread's team prepares, one after another: queries, then the key, then the value.
const uint TEAMS = gl_WorkGroupSize.x / TEAM;
const uint TURNS = (HEADS + 2 + TEAMS - 1) / TEAMS;
vec2 pairs[TURNS], gains[TURNS];
float row_squares; // the thread's part of them

uint job_of(uint turn) { return turn * TEAMS + gl_LocalInvocationIndex / TEAM; }
uint kind_of(uint job) { return job < HEADS ? 0 : job == HEADS ? 1 : 2; }

void load_heads(uint row, uint first_head, uint key_head) {
    uint slot = gl_LocalInvocationIndex % TEAM;
    uvec2 at = pair_at(slot < D / 2 ? slot : 0);
    [[unroll]] for (uint i = 0; i < TURNS; i++) {
        uint job = job_of(i), kind = kind_of(job);
        bool exists = slot < D / 2 && job < HEADS + 2;
        uint from = kind == 0   ? p.q_offset + row * p.q_stride + (first_head + job) * D
                    : kind == 1 ? p.k_offset + row * p.k_stride + key_head * D
                                : p.v_offset + row * p.v_stride + key_head * D;
        pairs[i] = exists ? load_pair(kind, from, at, p.q_stride) : vec2(0.0);
        gains[i] = exists ? gain_of(kind, at) : vec2(1.0);
    }
    row_squares = own_squares(row);
}

// Whether a part of the heads is not there yet.
bool heads_are_missing() {
    bool missing = false;
    [[unroll]] for (uint i = 0; i < TURNS; i++) {
        uint kind = kind_of(job_of(i));
        missing = missing || is_missing(kind, pairs[i].x) || is_missing(kind, pairs[i].y);
    }
    return missing;
}

shared uint rows_met_s; // whether another new token is of this row's sequence, so that each might miss the other's key

// Whether this thread finds another new token of the row's sequence: each looks at another row.
bool meets_other(uint row) {
    uint other = min(gl_LocalInvocationIndex, gl_NumWorkGroups.y - 1);
    bool is_new = uint(slots[p.slot_offset + other]) < PLACES;
    return other != row && is_new && SEQUENCE_OF(other) == SEQUENCE_OF(row);
}

// Stores the heads in shared memory, and the new key and value in their place, unless they become CODES. met: whether
// this thread has found another new token of the row's sequence. Called by all threads together.
void prepare_heads(uint row, uint key_head, bool stores, bool met) {
    uint slot = gl_LocalInvocationIndex % TEAM;
    uvec2 at = pair_at(slot < D / 2 ? slot : 0);
    if (gl_LocalInvocationIndex == 0) {
        rows_met_s = 0;
    }
    float factor = sums_factor(row_squares);
    vec2 turn = slot < DIMS / 2 ? turn_of(slot, row) : vec2(0.0, 1.0);
    [[unroll]] for (uint i = 0; i < TURNS; i++) {
        uint job = job_of(i), kind = kind_of(job);
        if (i != 0) {
            barrier(); // the squares of the previous heads have been read
        }
        vec2 pair = pair_result(pairs[i], factor);
        float scale = head_scale(pair, kind == 0 ? p.q_eps : p.k_eps);
        if (is_normed(kind)) {
            pair = normed(pair, scale, gains[i]);
        }
        if (kind != 2 && slot < DIMS / 2) {
            pair = rotated(pair, turn);
        }
        if (kind == 0 || !CODES) { // rounded as if it were stored
            uint dtype = kind == 0 ? q_DT : keys_DT;
            pair = vec2(rounded(pair.x, dtype), rounded(pair.y, dtype));
        }
        if (slot < D / 2 && job < HEADS + 2) {
            set_head(job, at, pair);
            if (kind != 0 && stores) {
                store_pair(kind, key_head, at, pair);
            }
        }
    }
    if (met) {
        rows_met_s = 1;
    }
    barrier();
}

#endif
