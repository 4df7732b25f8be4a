// A unit of 32 floats as 2^-k times integers of at most 2^22, k as the largest of
// them asks for. What such an integer leaves out is below 2^-23 of the largest,
// and sums of 32 products with codes of 4 bits are exact in 32 bits. With infinities
// they are any integers, multiples of an infinity: no sum of their products is finite.
//
// Four lanes of a subgroup side by side bring a unit, eight floats each.
#ifndef UNIT_INTEGERS_GLSL
#define UNIT_INTEGERS_GLSL

#extension GL_KHR_shader_subgroup_shuffle : require

// The biased exponent that the unit's integers go by.
uint unit_exponent(vec4 a, vec4 b) {
    vec4 magnitudes = max(abs(a), abs(b));
    float largest = max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w));
    largest = max(largest, subgroupShuffleXor(largest, 1));
    largest = max(largest, subgroupShuffleXor(largest, 2));
    return max(floatBitsToUint(largest) >> 23, 22u);
}

const uint INFINITE_EXPONENT = 255;

// What the integers are multiples of, 2^-k.
float unit_multiple(uint exponent) {
    return uintBitsToFloat((exponent == INFINITE_EXPONENT ? exponent : exponent - 21u) << 23);
}

// v * 2^k, rounded to nearest even.
ivec4 integers(vec4 v, uint exponent) {
    float up = uintBitsToFloat((275u - exponent) << 23); // 2^21 over the largest one's power of two
    precise vec4 shifted = v * up + vec4(12582912.0);    // 1.5 * 2^23: the integer is in the last places
    return floatBitsToInt(shifted) - 0x4b400000;
}

// A byte of each of four integers.
uint bytes_of(ivec4 n, uint shift) {
    uvec4 byte = (uvec4(n) >> shift) & 255u;
    return byte.x | (byte.y << 8) | (byte.z << 16) | (byte.w << 24);
}

#endif
