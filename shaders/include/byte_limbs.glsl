// Stores the integers of unit_integers.glsl in shared memory, byte by byte, for dot products of bytes.
//
// Before the include: PIECE_UNITS, and staged[] of 6 * PIECE_UNITS quads at least.
#ifndef BYTE_LIMBS_GLSL
#define BYTE_LIMBS_GLSL

#include "byte_dots.glsl"
#include "unit_integers.glsl"

// a and b are floats 8i to 8i + 7 of x: the words with one byte of the even ones and of
// the odd ones are adjacent (EVEN_FIRST of code_bytes.glsl), or those of the first and
// of the last four.
// Returns 2^-k, and what sums of the lane's products begin with. Four
// adjacent lanes of a subgroup handle a unit, 4 * SPAN a span. first: where the row's
// quads begin in staged[]; exists: whether to write it.
float stage_limbs(uint first, uint i, bool exists, vec4 a, vec4 b, out int start) {
    uint exponent = span_exponent(largest_of_lanes(largest_of_eight(a, b), 4 * SPAN));
    ivec4 of_a = integers(a, exponent), of_b = integers(b, exponent);
    start = start_of(sum_of_integers(of_a + of_b));
    uvec4 low = uvec4(of_a), high = uvec4(of_b);
    uvec3 first_four = bytes_of(EVEN_FIRST ? uvec4(low.xz, high.xz) : low);
    uvec3 last_four = bytes_of(EVEN_FIRST ? uvec4(low.yw, high.yw) : high);
    [[unroll]] for (uint limb = 0; limb < 3; limb++) {
        uvec2 pair = uvec2(first_four[limb], last_four[limb]);
        uint at = first + (2 * limb + ((i >> 1) & 1)) * PIECE_UNITS + (i >> 2);
        if (exists && (i & 1) == 0) {
            staged[at].xy = pair;
        }
        if (exists && (i & 1) != 0) {
            staged[at].zw = pair;
        }
    }
    return span_multiple(exponent);
}

#endif
