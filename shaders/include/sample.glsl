// Weights of tokens in integers, the same to the last bit on every device:
// fallback/sample_weight.go explains how, and computes the same.
#ifndef SAMPLE_GLSL
#define SAMPLE_GLSL

#include "wide.glsl"

const uint WEIGHT_BITS = 40u;
const uint EXPONENT_BITS = 26u;
const uint FARTHEST = 0xffffffffu;
const uint UNLIKELIEST = 0x00800000u;    // the key of -Inf
const uint BEYOND_NUMBERS = 0xff800000u; // the key of +Inf; those above are of NaNs

// A factor of logits: mantissa * 2^exponent.
struct Scale {
    uint mantissa;
    int exponent;
};

Scale natural() { return Scale(0xb8aa3b29u, -31); } // log2(e)

// The bits of a float32 as an integer with the same order.
uint sample_key(uint u) {
    uint a = u & 0x7fffffffu;
    if (a > 0x7f800000u) {
        return 0xffffffffu; // NaN
    }
    return a == u ? 0x80000000u + a : 0x80000000u - a;
}

// A number is ±mantissa * 2^(exponent-150).
struct Parts {
    uint mantissa;
    int exponent;
    bool negative;
};

Parts key_parts(uint key) {
    Parts p;
    p.negative = key < 0x80000000u;
    uint magnitude = p.negative ? 0x80000000u - key : key - 0x80000000u;
    p.exponent = int(magnitude >> 23);
    p.mantissa = magnitude & 0x7fffffu;
    if (p.exponent == 0) {
        p.exponent = 1;
    } else {
        p.mantissa |= 0x800000u;
    }
    return p;
}

// y of a key below the best one, in units of 2^-26.
uint exponent_below(uint best, uint key, Scale c) {
    if (key <= UNLIKELIEST) {
        return FARTHEST;
    }
    Parts a = key_parts(best);
    Parts b = key_parts(key);
    if (a.exponent < b.exponent || (a.exponent == b.exponent && a.mantissa < b.mantissa)) {
        Parts swap = a;
        a = b;
        b = swap;
    }
    int apart = a.exponent - b.exponent;
    uint less = apart < 32 ? (b.mantissa << 7) >> uint(apart) : 0u;
    uint d = (a.mantissa << 7) + (a.negative == b.negative ? 0u - less : less);
    uint high, low;
    umulExtended(d, c.mantissa, high, low);
    int right = -(a.exponent - 157 + c.exponent + int(EXPONENT_BITS));
    if (right >= 64 || d == 0u) {
        return 0u;
    }
    if (right >= 32) {
        return high >> uint(right - 32);
    }
    if (right < 0 || (high >> uint(right)) != 0u) {
        return FARTHEST;
    }
    if (right == 0) {
        return low;
    }
    return (high << uint(32 - right)) | (low >> uint(right));
}

// 2^-y in units of 2^-40.
uvec2 weight_of(uint y) {
    uint n = y >> EXPONENT_BITS;
    if (n > WEIGHT_BITS) {
        return uvec2(0u);
    }
    uint f = y << (32u - EXPONENT_BITS);
    uint r = mul_high(f, 0xbda6u);
    r = mul_high(f, 0x9c200u - r);
    r = mul_high(f, 0x5728b0u - r);
    r = mul_high(f, 0x27641a9u - r);
    r = mul_high(f, 0xe358127u - r);
    r = mul_high(f, 0x3d7f7bcbu - r);
    r = mul_high(f, 0xb17217f7u - r);
    uint e = 0x80000000u - (r >> 1); // to be shifted left by 9 and right by n
    if (n >= 9u) {
        return uvec2(e >> (n - 9u), 0u);
    }
    uint left = 9u - n;
    return uvec2(e << left, e >> (32u - left));
}

#endif
