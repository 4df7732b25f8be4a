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
// Returns 2^-k of the unit. Lanes 4j to 4j + 3 of a subgroup handle one unit. first:
// where the row's quads begin in staged[]; exists: whether to write it.
float stage_limbs(uint first, uint i, bool exists, vec4 a, vec4 b) {
    uint exponent = unit_exponent(a, b);
    uvec4 low = uvec4(integers(a, exponent)), high = uvec4(integers(b, exponent));
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
    return unit_multiple(exponent);
}

#endif
