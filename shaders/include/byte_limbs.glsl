// Floats as integers of three bytes, for the device's dot products of bytes: a
// unit of 32 floats is 2^-k times integers of at most 2^22, k as its largest
// float asks for. What such a number leaves out is below 2^-23 of the largest,
// and sums of 32 products with codes of 4 bits are exact in 32 bits.
//
// Before the include: PIECE_UNITS, and staged[] of 6 * PIECE_UNITS quads at least.
#ifndef BYTE_LIMBS_GLSL
#define BYTE_LIMBS_GLSL

#extension GL_EXT_spirv_intrinsics : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Sums of the products of four bytes (format 0), without and with signs.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4451)
uint dot_unsigned(uint a, uint b, spirv_literal int format);
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_signed(uint a, uint b, spirv_literal int format);

// What `up` = 2^k brings to integers, as integers; rounded to nearest even.
ivec4 integers(vec4 v, float up) {
    precise vec4 shifted = v * up + vec4(12582912.0); // 1.5 * 2^23: the integer is in the last places
    return floatBitsToInt(shifted) - 0x4b400000;
}

// A byte of each of four integers.
uint bytes_of(ivec4 n, uint shift) {
    uvec4 byte = (uvec4(n) >> shift) & 255u;
    return byte.x | (byte.y << 8) | (byte.z << 16) | (byte.w << 24);
}

// Floats 8i to 8i + 7 of x are a and b: the words with one byte of the even ones
// and of the odd ones stand side by side, as the codes of a word do when they
// are masked. Gives 2^-k of the unit. Lanes 4j to 4j + 3 of a subgroup bring a unit.
// first: where the row's quads begin in staged[]; exists: whether to write it.
float stage_limbs(uint first, uint i, bool exists, vec4 a, vec4 b) {
    vec4 magnitudes = max(abs(a), abs(b));
    float largest = max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w));
    largest = max(largest, subgroupShuffleXor(largest, 1));
    largest = max(largest, subgroupShuffleXor(largest, 2));
    uint exponent = clamp(floatBitsToUint(largest) >> 23, 22u, 254u);
    float up = uintBitsToFloat((275u - exponent) << 23); // 2^21 over the largest one's power of two
    ivec4 low = integers(a, up), high = integers(b, up);
    ivec4 even = ivec4(low.xz, high.xz), odd = ivec4(low.yw, high.yw);
    [[unroll]] for (uint limb = 0; limb < 3; limb++) {
        uvec2 pair = uvec2(bytes_of(even, 8 * limb), bytes_of(odd, 8 * limb));
        uint at = first + (2 * limb + ((i >> 1) & 1)) * PIECE_UNITS + (i >> 2);
        if (exists && (i & 1) == 0) {
            staged[at].xy = pair;
        }
        if (exists && (i & 1) != 0) {
            staged[at].zw = pair;
        }
    }
    return uintBitsToFloat((exponent - 21u) << 23);
}

#endif
