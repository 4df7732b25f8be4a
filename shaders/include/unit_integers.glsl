// A unit of 32 floats as 2^-k times integers of at most 2^22, where k depends on the
// largest of the floats. The rounding error is below 2^-23 of the largest, and sums of
// 32 products with codes of 4 bits are exact in 32 bits. With infinities or NaNs, the
// integers are arbitrary multiples of an infinity, so that no sum of their products is
// finite.
//
// Four adjacent lanes of a subgroup handle a unit, eight floats each.
#ifndef UNIT_INTEGERS_GLSL
#define UNIT_INTEGERS_GLSL

#extension GL_KHR_shader_subgroup_shuffle : require

// The biased exponent that determines the scale of the unit's integers.
uint unit_exponent(vec4 a, vec4 b) {
    uvec4 magnitudes = max(floatBitsToUint(a) & 0x7fffffffu, floatBitsToUint(b) & 0x7fffffffu);
    uint largest = max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w));
    largest = max(largest, subgroupShuffleXor(largest, 1));
    largest = max(largest, subgroupShuffleXor(largest, 2));
    return max(largest >> 23, 22u);
}

const uint INFINITE_EXPONENT = 255;

// The number that the integers are multiples of, 2^-k.
float unit_multiple(uint exponent) {
    return uintBitsToFloat((exponent == INFINITE_EXPONENT ? exponent : exponent - 21u) << 23);
}

// v * 2^k, rounded to nearest even.
ivec4 integers(vec4 v, uint exponent) {
    float up = uintBitsToFloat((275u - exponent) << 23); // 2^21 over the largest one's power of two
    precise vec4 shifted = v * up + vec4(12582912.0);    // 1.5 * 2^23: puts the integer into the lowest bits
    return floatBitsToInt(shifted) - 0x4b400000;
}

// One byte of each of four integers.
uint bytes_of(ivec4 n, uint shift) {
    uvec4 byte = (uvec4(n) >> shift) & 255u;
    return byte.x | (byte.y << 8) | (byte.z << 16) | (byte.w << 24);
}

#endif
