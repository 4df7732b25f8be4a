// Rows of floats as integers of LIMBS limbs, in planes: quantized_matmul_limbs writes
// them, quantized_matmul_bytes_coopmat multiplies them. Floats of 32 bits need three
// limbs, floats of 16 bits two: what is then rounded off is at most half of what the
// largest of a group may have lost when it became 16 bits.
//
// Before the include: the constants LIMBS and BITS, of a code.
#ifndef LIMB_PLANES_GLSL
#define LIMB_PLANES_GLSL

const uint LIMB_BITS = 7;
const uint INTEGER_BITS = LIMB_BITS * LIMBS; // and a sign
const uint LIMB_MASK = 0x7f7f7f7fu;
const uint PLANES = 4; // bytes of an element

// Run `run`, of 8 elements, of a row: planes of a group follow one another, and in a plane all rows.
uint plane_run(uint rows, uint group_shift, uint row, uint run, uint plane) {
    uint group_runs = 1u << (group_shift - 3u);
    return ((run / group_runs * PLANES + plane) * rows + row) * group_runs + run % group_runs;
}

// The byte of element k of a run, in the order in which codes are unpacked: of 4 bits, the even ones of a word come first.
uint plane_byte(uint k) { return BITS != 4 ? k : (k & 1u) * 4u + k / 2u; }

// The biased exponent that determines the integers of a group, whose largest magnitude is finite. It is limited, so that
// the power of two below is no subnormal number: groups whose largest is below 2^-106 have fewer bits.
uint limb_exponent(float largest) { return max(floatBitsToUint(largest) >> 23, 21u); }

// What the integers are multiples of.
float limb_multiple(uint exponent) { return uintBitsToFloat((exponent + 1u - INTEGER_BITS) << 23); }

// Rounded to nearest even. The integers have 21 bits and a sign at most, so sums of 128 products with codes from -8 to 7
// fit 32 bits; sums of some of the limbs only need to be right modulo 2^32. With codes of up to 8 bits, those of two limbs fit.
ivec4 limb_integers(vec4 v, uint exponent) {
    float up = uintBitsToFloat((253u + INTEGER_BITS - exponent) << 23); // 2^(INTEGER_BITS-1) over the largest one's power of two
    precise vec4 shifted = v * up + vec4(12582912.0);                   // 1.5 * 2^23: puts the integer into the lowest bits
    const int most = (1 << INTEGER_BITS) - 1;
    return clamp(floatBitsToInt(shifted) - 0x4b400000, ivec4(-most), ivec4(most));
}

#endif
