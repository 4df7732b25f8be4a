// Exact conversions between float and the bits of every element type. Rounding
// is to nearest, ties to even, on every device (packHalf2x16 promises no mode).
#ifndef CONVERT_GLSL
#define CONVERT_GLSL

#include "types.h"

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

float bits_to_float(uint bits, uint dtype) {
    switch (dtype) {
    case DT_FLOAT16: return unpackHalf2x16(bits).x;
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
    case DT_INT32: return uint(int(v));
    case DT_UINT32: case DT_UINT8: return uint(v);
    case DT_BOOL: return uint(v != 0.0);
    default: return floatBitsToUint(v);
    }
}

#endif
