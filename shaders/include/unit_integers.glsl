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
    vec4 shifted = fma(v, vec4(up), vec4(12582912.0));   // 1.5 * 2^23: puts the integer into the lowest bits
    return floatBitsToInt(shifted) - 0x4b400000;
}

// Bytes 0, 1 and 2 of four integers, each in one word. By pairs, that takes fewer instructions
// than byte by byte.
uvec3 bytes_of(uvec4 n) {
    uvec2 outer = (n.xz & 0x00ff00ffu) | ((n.yw << 8) & 0xff00ff00u); // bytes 0 and 2 of two of them
    uvec2 middle = ((n.xz >> 8) & 0xffu) | (n.yw & 0xff00u);
    return uvec3((outer.x & 0xffffu) | (outer.y << 16), middle.x | (middle.y << 16),
                 (outer.x >> 16) | (outer.y & 0xffff0000u));
}

#endif
