// Floats as 2^-k times integers, where k depends on the largest floats of a span: SPAN
// units of 32 columns, 1, 2 or 4, that share a scale. The integers are at most 2^22 (2^21
// with spans of 4 units), so the rounding error is at most 2^-23 (2^-22) of the power of two
// above the largest, or with several units twice that for the negative number of the largest magnitude; and
// sums of a span's products with codes of 4 bits, minus their middle if there is more than
// one unit, are exact in 32 bits. With infinities or NaNs, the integers are arbitrary
// multiples of NaN, so that no sum of their products is finite, and none has a sign that
// depends on the kernel.
//
// Before the include: SPAN, and MIDDLE of code_bytes.glsl.
#ifndef UNIT_INTEGERS_GLSL
#define UNIT_INTEGERS_GLSL

#extension GL_KHR_shader_subgroup_shuffle : require

const uint INTEGER_BITS = SPAN == 4 ? 21 : 22;

// The bits of the largest magnitude of eight floats.
uint largest_of_eight(vec4 a, vec4 b) {
    uvec4 magnitudes = max(floatBitsToUint(a) & 0x7fffffffu, floatBitsToUint(b) & 0x7fffffffu);
    return max(max(magnitudes.x, magnitudes.y), max(magnitudes.z, magnitudes.w));
}

// The same of 4, 8 or 16 adjacent lanes of a subgroup, by as few shuffles that wait for each other as possible.
uint largest_of_lanes(uint largest, uint lanes) {
    [[unroll]] for (uint reach = 1; reach < lanes; reach *= 4) {
        uint first = subgroupShuffleXor(largest, reach);
        if (2 * reach < lanes) {
            uint second = subgroupShuffleXor(largest, 2 * reach), third = subgroupShuffleXor(largest, 3 * reach);
            first = max(first, max(second, third));
        }
        largest = max(largest, first);
    }
    return largest;
}

// The sum of 4, 8 or 16 adjacent lanes, of pairs first, then of pairs of these.
float sum_of_lanes(float v, uint lanes) {
    [[unroll]] for (uint reach = 1; reach < lanes; reach *= 4) {
        precise float sum = v + subgroupShuffleXor(v, reach);
        if (2 * reach < lanes) {
            precise float second = subgroupShuffleXor(v, 2 * reach) + subgroupShuffleXor(v, 3 * reach);
            sum += second;
        }
        v = sum;
    }
    return v;
}

// The biased exponent that determines the scale of a span's integers.
uint span_exponent(uint largest) { return max(largest >> 23, 22u); }

const uint INFINITE_EXPONENT = 255;

// The number that the integers are multiples of, 2^-k.
float span_multiple(uint exponent) {
    return uintBitsToFloat(exponent == INFINITE_EXPONENT ? 0x7fc00000u : (exponent + 1u - INTEGER_BITS) << 23);
}

// 2^k.
float span_factor(uint exponent) { return uintBitsToFloat((253u + INTEGER_BITS - exponent) << 23); }

// 1.5 * 2^23: added to a number of at most 2^22, it puts the integer into the lowest bits.
const float SHIFT = 12582912.0;

// v * 2^k, rounded to nearest even, plus SHIFT.
vec4 shifted_integers(vec4 v, uint exponent) {
    vec4 shifted = fma(v, vec4(span_factor(exponent)), vec4(SHIFT));
    // The negative one of the largest magnitude, times as many of the lowest codes, would not fit 32 bits.
    return SPAN > 1 ? max(shifted, vec4(SHIFT + 1.0 - float(1 << INTEGER_BITS))) : shifted;
}

ivec4 without_shift(vec4 shifted) { return floatBitsToInt(shifted) - floatBitsToInt(SHIFT); }

ivec4 integers(vec4 v, uint exponent) { return without_shift(shifted_integers(v, exponent)); }

int sum_of_integers(ivec4 n) { return (n.x + n.y) + (n.z + n.w); }

// The sum over adjacent lanes, a power of two; only with spans of several units, since others do not need it.
int sum_of_lanes(int sum, uint lanes) {
    [[unroll]] for (uint bit = 1; bit < lanes; bit *= 2) {
        sum += SPAN > 1 ? subgroupShuffleXor(sum, bit) : 0;
    }
    return sum;
}

// What a sum of products of codes with integers begins with, given the sum of these integers: minus MIDDLE times it.
int start_of(int sum) { return SPAN > 1 ? -int(MIDDLE) * sum : 0; }

// Bytes 0, 1 and 2 of four integers, each in one word. By pairs, that takes fewer instructions
// than byte by byte.
uvec3 bytes_of(uvec4 n) {
    uvec2 outer = (n.xz & 0x00ff00ffu) | ((n.yw << 8) & 0xff00ff00u); // bytes 0 and 2 of two of them
    uvec2 middle = ((n.xz >> 8) & 0xffu) | (n.yw & 0xff00u);
    return uvec3((outer.x & 0xffffu) | (outer.y << 16), middle.x | (middle.y << 16),
                 (outer.x >> 16) | (outer.y & 0xffff0000u));
}

#endif
