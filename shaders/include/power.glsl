// pow and mod in float32, with the rules of math.glsl: C's powf, and the exact
// remainder with the divisor's sign.
#ifndef POWER_GLSL
#define POWER_GLSL

#include "math.glsl"

// a + b = x + y exactly (Knuth).
vec2 sum_exact(float a, float b) {
    precise float s = a + b;
    precise float bb = s - a;
    precise float error = (a - (s - bb)) + (b - bb);
    return vec2(s, error);
}

// log2 of a positive finite number as a sum of two floats, to about 2^-28.
vec2 log2_pair(float x) {
    int e;
    float f = split_float(x, e) - 1.0;
    vec2 ff = product_exact(f, f);
    vec2 l = sum_exact(f, -0.5 * ff.x);
    precise float l_low = l.y + (f * ff.x * log_tail(f) - 0.5 * ff.y);
    l = sum_exact(l.x, l_low);
    vec2 scaled = product_exact(l.x, 1.44269502);
    precise float scaled_low = scaled.y + (l.x * 1.92596299e-8 + l.y * 1.44269502);
    vec2 sum = sum_exact(float(e), scaled.x);
    precise float low = sum.y + scaled_low;
    return sum_exact(sum.x, low);
}

// 2^(h.x + h.y)
float exp2_pair(vec2 h) {
    if (h.x > 130.0) {
        return make_inf();
    }
    if (h.x < -152.0) {
        return 0.0;
    }
    float n = floor(h.x + 0.5);
    precise float r = (h.x - n) + h.y;
    float q = 1.52982211e-05; // |r| <= 1/2
    q = q * r + 0.000154626105;
    q = q * r + 0.00133334997;
    q = q * r + 0.00961805414;
    q = q * r + 0.0555041097;
    q = q * r + 0.240226507;
    q = q * r + 0.693147182;
    return scale_by(q * r + 1.0, int(n));
}

// 0: y is not an integer, 1: an odd one, 2: an even one or infinite.
uint integer_kind(float y) {
    uint u = magnitude_bits(y);
    if (u >= 0x4b800000u || u == 0u) {
        return 2u; // at least 2^24, or zero
    }
    if (u < 0x3f800000u) {
        return 0u;
    }
    uint fraction_bits = 150u - (u >> 23); // 0 to 23
    uint mantissa = (u & 0x7fffffu) | 0x800000u;
    if ((mantissa & ((1u << fraction_bits) - 1u)) != 0u) {
        return 0u;
    }
    return ((mantissa >> fraction_bits) & 1u) == 1u ? 1u : 2u;
}

// |x|^y where neither is NaN and y is not zero.
float pow_magnitude(float x, float y) {
    uint ax = magnitude_bits(x);
    bool down = is_negative(y);
    if (ax == 0u) {
        return down ? make_inf() : 0.0;
    }
    if (ax == 0x3f800000u) {
        return 1.0;
    }
    if (ax == INF_BITS) {
        return down ? 0.0 : make_inf();
    }
    if (is_inf(y)) {
        return (ax > 0x3f800000u) == down ? 0.0 : make_inf();
    }
    y = clamp(y, -4294967296.0, 4294967296.0); // beyond that, any x other than 1 has left the range
    vec2 l = log2_pair(uintBitsToFloat(ax));
    vec2 h = product_exact(l.x, y);
    precise float low = h.y + l.y * y;
    return exp2_pair(vec2(h.x, low));
}

// x^y as C's powf.
float m_pow(float x, float y) {
    if (magnitude_bits(y) == 0u || floatBitsToUint(x) == 0x3f800000u) {
        return 1.0;
    }
    if (is_nan(x) || is_nan(y)) {
        return make_nan();
    }
    float magnitude = pow_magnitude(x, y);
    if (!is_negative(x)) {
        return magnitude;
    }
    uint kind = integer_kind(y);
    uint ax = magnitude_bits(x);
    if (kind == 0u && ax != 0u && ax != INF_BITS) {
        return make_nan();
    }
    return kind == 1u ? -magnitude : magnitude;
}

// x normalized as mantissa * 2^(exponent - 150) with its highest bit at 23.
uint normalized_mantissa(uint u, out int exponent) {
    uint mantissa = u & 0x7fffffu;
    exponent = int(u >> 23);
    if (exponent > 0) {
        return mantissa | 0x800000u;
    }
    int shift = 23 - findMSB(mantissa);
    exponent = 1 - shift;
    return mantissa << shift;
}

// The bits of fmod(|x|, |y|), exact, by long division. Both are finite, y is not zero.
uint fmod_bits(uint ux, uint uy) {
    if (ux < uy) {
        return ux;
    }
    int ex, ey;
    uint r = normalized_mantissa(ux, ex);
    uint d = normalized_mantissa(uy, ey);
    r %= d;
    for (int left = ex - ey; left > 0;) { // at most 35 times
        int step_bits = min(left, 8);
        r = (r << step_bits) % d;
        left -= step_bits;
    }
    if (r == 0u) {
        return 0u;
    }
    int shift = 23 - findMSB(r);
    if (ey - shift >= 1) {
        return ((r << shift) & 0x7fffffu) | (uint(ey - shift) << 23);
    }
    return ey >= 1 ? r << (ey - 1) : r >> (1 - ey); // subnormal
}

// x mod y with the sign of y, as Python's %, but a zero has the sign of x; NaN for y = 0.
float m_mod(float x, float y) {
    uint ux = magnitude_bits(x);
    uint uy = magnitude_bits(y);
    if (ux >= INF_BITS || uy > INF_BITS || uy == 0u) {
        return make_nan();
    }
    uint r = uy == INF_BITS ? ux : fmod_bits(ux, uy);
    if (r == 0u) {
        return with_sign_of(0.0, x);
    }
    float signed_r = with_sign_of(uintBitsToFloat(r), x);
    return is_negative(x) != is_negative(y) ? signed_r + y : signed_r;
}

#endif
