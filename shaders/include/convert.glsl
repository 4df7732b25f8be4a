// Exact conversions between float and the bits of every element type. Rounding
// is to nearest, ties to even, on every device (packHalf2x16 promises no mode),
// and 16-bit subnormals are kept even where float32 ones are flushed to zero.
#ifndef CONVERT_GLSL
#define CONVERT_GLSL

#include "types.h"

bool is_float_dtype(uint dtype) { return dtype <= DT_BFLOAT16; }

uint float_to_bfloat16(float f) {
    uint u = floatBitsToUint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return (u >> 16) | 0x40u;
    }
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

uint float_to_float16(float f) {
    uint u = floatBitsToUint(f);
    uint sign = (u >> 16) & 0x8000u;
    uint a = u & 0x7fffffffu;
    if (a > 0x7f800000u) {
        return sign | 0x7e00u; // NaN
    }
    if (a >= 0x477ff000u) {
        return sign | 0x7c00u; // rounds to infinity
    }
    if (a < 0x33000001u) {
        return sign; // rounds to zero
    }
    if (a < 0x38800000u) { // subnormal: shift the mantissa with its hidden bit
        uint shift = 126u - (a >> 23);
        uint mantissa = (a & 0x7fffffu) | 0x800000u;
        uint kept = mantissa >> shift;
        uint rest = mantissa & ((1u << shift) - 1u);
        uint half_ulp = 1u << (shift - 1u);
        return sign | (kept + uint(rest > half_ulp || (rest == half_ulp && (kept & 1u) == 1u)));
    }
    return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
}

// Both forms are computed and one is selected: a branch for each element costs more.
float float16_to_float(uint h) {
    uint sign = (h & 0x8000u) << 16;
    uint a = (h & 0x7fffu) << 13;
    // Zero or subnormal: 2^-14 more than it is, as a normal float32.
    uint small = floatBitsToUint(uintBitsToFloat(a | 0x38800000u) - 6.103515625e-5);
    uint large = a + (a < 0x0f800000u ? 0x38000000u : 0x70000000u); // infinity and NaN keep a full exponent
    return uintBitsToFloat(sign | (a < 0x00800000u ? small : large));
}

// Truncates toward zero; out of range saturates, NaN gives 0 (GLSL leaves both open).
int float_to_int(float f) {
    uint a = floatBitsToUint(f) & 0x7fffffffu;
    bool negative = (floatBitsToUint(f) >> 31) != 0u;
    if (a > 0x7f800000u) {
        return 0;
    }
    if (a >= 0x4f000000u) { // 2^31
        return negative ? int(0x80000000u) : 0x7fffffff;
    }
    return int(f);
}

uint float_to_uint(float f) {
    uint u = floatBitsToUint(f);
    if (u > 0x7f800000u) { // negative, or NaN
        return 0u;
    }
    return u >= 0x4f800000u ? 0xffffffffu : uint(f); // 2^32
}

float bits_to_float(uint bits, uint dtype) {
    switch (dtype) {
    case DT_FLOAT16: return float16_to_float(bits);
    case DT_BFLOAT16: return uintBitsToFloat(bits << 16);
    case DT_INT32: return float(int(bits));
    case DT_UINT32: case DT_BOOL: case DT_UINT8: return float(bits);
    default: return uintBitsToFloat(bits);
    }
}

uint float_to_bits(float v, uint dtype) {
    switch (dtype) {
    case DT_FLOAT16: return float_to_float16(v);
    case DT_BFLOAT16: return float_to_bfloat16(v);
    case DT_INT32: return uint(float_to_int(v));
    case DT_UINT32: return float_to_uint(v);
    case DT_UINT8: return min(float_to_uint(v), 255u);
    case DT_BOOL: return uint((floatBitsToUint(v) & 0x7fffffffu) != 0u);
    default: return floatBitsToUint(v);
    }
}

// The bits of a float without its sign; zero for both zeros, whatever its width.
uint magnitude_of_bits(uint bits, uint dtype) {
    switch (dtype) {
    case DT_FLOAT32: return bits & 0x7fffffffu;
    case DT_FLOAT16: case DT_BFLOAT16: return bits & 0x7fffu;
    default: return bits;
    }
}

bool bits_nonzero(uint bits, uint dtype) { return magnitude_of_bits(bits, dtype) != 0u; }

bool bits_nan(uint bits, uint dtype) {
    uint a = magnitude_of_bits(bits, dtype);
    switch (dtype) {
    case DT_FLOAT32: return a > 0x7f800000u;
    case DT_FLOAT16: return a > 0x7c00u;
    case DT_BFLOAT16: return a > 0x7f80u;
    default: return false;
    }
}

// A number with the same order as the element: both zeros are equal, NaNs have no meaning.
uint order_key(uint bits, uint dtype) {
    uint sign_bit = 0x8000u;
    switch (dtype) {
    case DT_INT32: return bits ^ 0x80000000u;
    case DT_FLOAT32: sign_bit = 0x80000000u; break;
    case DT_FLOAT16: case DT_BFLOAT16: break;
    default: return bits;
    }
    bool negative = (bits & sign_bit) != 0u;
    uint a = bits & (sign_bit - 1u);
    return negative ? sign_bit - a : sign_bit + a;
}

// The element's value in another type: exact where it can be, else rounded to
// nearest even, from integers to 16-bit floats by way of float32; integers wrap; floats to integers as float_to_int.
uint convert_bits(uint bits, uint from, uint to) {
    if (from == to) {
        return bits;
    }
    if (to == DT_BOOL) {
        return uint(bits_nonzero(bits, from));
    }
    if (!is_float_dtype(from) && !is_float_dtype(to)) {
        return to == DT_UINT8 ? bits & 0xffu : bits;
    }
    return float_to_bits(bits_to_float(bits, from), to);
}

#endif
