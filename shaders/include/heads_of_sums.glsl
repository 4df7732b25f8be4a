// Heads of new tokens that are results of a product, of which there are only the sums of parts that projection_parts or
// projection_fragments has stored. Kernels that prepare heads put these together themselves, so that no dispatch of
// projection_join has to.
//
// Before the include: math.glsl; q_DT, the type of results; SUMS_SPEC, the first of five constants; SUM_ROWS, the rows of
// x; part_sums[] and squares[], in the places of q and k. From row to row, q, k and v have the same stride.
#ifndef HEADS_OF_SUMS_GLSL
#define HEADS_OF_SUMS_GLSL

#include "projection_sums.glsl"

layout(constant_id = SUMS_SPEC) const uint X_COLS = 0; // of x, which has a norm. 0: q, k and v are there
layout(constant_id = SUMS_SPEC + 1) const uint X_LANES = 32; // units of a slice
layout(constant_id = SUMS_SPEC + 2) const uint X_PART = 16;  // of a part
layout(constant_id = SUMS_SPEC + 3) const uint X_SIDE = 8;   // rows of x of a block
layout(constant_id = SUMS_SPEC + 4) const uint X_EPS = 0;    // of the norm, its bits

#define SUM_UNITS (X_COLS / 32)
#define SUM_LANES X_LANES
#define SUM_PART X_PART
#include "joined_sums.glsl"

const bool OF_SUMS = X_COLS != 0;

// A pair of a head's elements, from the sums of the first part on; pitch: from row to row.
vec2 joined_pair(uint from, uvec2 at, uint pitch) {
    uint apart = (SUM_ROWS + X_SIDE - 1) / X_SIDE * X_SIDE * pitch;
    return vec2(joined_sum(from + at.x, apart), joined_sum(from + at.y, apart));
}

// The thread's part of a row's squares.
float own_squares(uint row) {
    uint lane = gl_LocalInvocationIndex;
    return OF_SUMS && lane < X_LANES ? squares_of_lane(row, lane) : 0.0;
}

// What sums are multiplied by. Called by all threads together.
float sums_factor(float own) { return OF_SUMS ? joined_factor(own, uintBitsToFloat(X_EPS)) : 1.0; }

float rounded(float v, uint dtype) { return bits_to_float(float_to_bits(v, dtype), dtype); }

// A pair as the product would have stored it.
vec2 pair_result(vec2 pair, float factor) {
    return OF_SUMS ? vec2(rounded(scaled_result(pair.x, factor), q_DT), rounded(scaled_result(pair.y, factor), q_DT)) : pair;
}

#endif
