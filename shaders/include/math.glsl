// Elementary functions in float32, alike on every device. GLSL leaves the
// builtins' precision loose and their NaN and infinity cases open; these keep
// within a few units in the last place and follow IEEE 754 and C. The
// polynomials are Chebyshev fits on the ranges named beside them. NaNs and
// infinities are found by their bits, which no compiler may assume away.
#ifndef MATH_GLSL
#define MATH_GLSL

#include "log2_e.glsl"

const uint INF_BITS = 0x7f800000u;

float make_nan() { return uintBitsToFloat(0x7fc00000u); }
float make_inf() { return uintBitsToFloat(INF_BITS); }
uint magnitude_bits(float x) { return floatBitsToUint(x) & 0x7fffffffu; }
bool is_nan(float x) { return magnitude_bits(x) > INF_BITS; }
bool is_inf(float x) { return magnitude_bits(x) == INF_BITS; }
bool is_negative(float x) { return (floatBitsToUint(x) >> 31) != 0u; }
float with_sign_of(float magnitude, float sign) {
    return uintBitsToFloat(magnitude_bits(magnitude) | (floatBitsToUint(sign) & 0x80000000u));
}

// 2^n for -126 <= n <= 127.
float exp2_int(int n) { return uintBitsToFloat(uint(n + 127) << 23); }

// v * 2^n for |n| <= 252, without overflow on the way.
float scale_by(float v, int n) {
    int half_n = n >> 1;
    return v * exp2_int(half_n) * exp2_int(n - half_n);
}

float m_exp(float x) {
    if (is_nan(x)) {
        return x;
    }
    x = clamp(x, -104.0, 89.0); // beyond: 0 and infinity
    // Each fma is written out, so that all kernels that use this get the same bits.
    float n = floor(fma(x, LOG2_E, 0.5));
    precise float r = (x - n * 0.69140625) - n * 0.00174093056; // the first product is exact
    float q = 0.00139269268; // |r| <= ln(2)/2
    q = fma(q, r, 0.00836377405);
    q = fma(q, r, 0.0416665487);
    q = fma(q, r, 0.166665733);
    q = fma(q, r, 0.5);
    return scale_by(fma(q * r, r, r) + 1.0, int(n));
}

// Positive finite x = m * 2^e with sqrt(1/2) <= m < sqrt(2).
float split_float(float x, out int e) {
    uint u = floatBitsToUint(x);
    e = 0;
    if (u < 0x00800000u) { // subnormal, which a device may read as zero
        u = floatBitsToUint(float(u));
        e = -149;
    }
    int shift = (int(u) - 0x3f3504f3) >> 23;
    e += shift;
    return uintBitsToFloat(u - (uint(shift) << 23));
}

// (ln(1+f) - f + f*f/2) / f^3 for sqrt(1/2) <= 1+f < sqrt(2).
float log_tail(float f) {
    float q = -0.0621060468;
    q = q * f + 0.105461948;
    q = q * f - 0.106504351;
    q = q * f + 0.110359125;
    q = q * f - 0.124500439;
    q = q * f + 0.142865866;
    q = q * f - 0.166680291;
    q = q * f + 0.200000092;
    q = q * f - 0.249999896;
    return q * f + 0.333333343;
}

float m_log(float x) {
    if (is_nan(x) || floatBitsToUint(x) == INF_BITS) {
        return x;
    }
    if (magnitude_bits(x) == 0u) {
        return -make_inf();
    }
    if (is_negative(x)) {
        return make_nan();
    }
    int e;
    float f = split_float(x, e) - 1.0;
    float ff = f * f;
    precise float low = float(e) * 0.00174093056 + (f * ff * log_tail(f) - 0.5 * ff);
    precise float sum = float(e) * 0.69140625 + (f + low);
    return sum;
}

float m_sqrt(float x) {
    uint u = floatBitsToUint(x);
    if (u == INF_BITS || magnitude_bits(x) == 0u || is_nan(x)) {
        return x;
    }
    return is_negative(x) ? make_nan() : sqrt(x);
}

float m_rsqrt(float x) {
    if (is_nan(x)) {
        return x;
    }
    if (magnitude_bits(x) == 0u) {
        return with_sign_of(make_inf(), x);
    }
    if (is_negative(x)) {
        return make_nan();
    }
    return is_inf(x) ? 0.0 : inversesqrt(x);
}

// a / b; some devices multiply by the reciprocal, which is no normal number for |b| > 2^126.
float m_div(float a, float b) {
    if (magnitude_bits(b) >= 0x7e800000u && !is_inf(b)) {
        return (a * 0.0625) / (b * 0.0625);
    }
    return a / b;
}

// --- sin and cos: exact reduction at any magnitude ---

// 64 bits of 1/(2*pi) from the bit that an odd mantissa's weight asks for; word
// 0 is a leading zero word.
uvec2 inverse_two_pi(uint first_bit) {
    const uint words[9] = uint[9](0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u,
                                  0x7f9458eau, 0xf7aef158u);
    uint k = first_bit >> 5;
    uint s = first_bit & 31u;
    uvec3 w;
    if (k == 0u) { // |x| < 2^24, without a look-up in memory
        w = uvec3(0u, 0x28be60dbu, 0x9391054au);
    } else {
        w = uvec3(words[k], words[k + 1u], words[k + 2u]);
    }
    if (s == 0u) {
        return w.xy;
    }
    return (w.xy << s) | (w.yz >> (32u - s));
}

// x = quadrant * pi/2 + result (mod 2*pi), |result| <= pi/4. x is finite.
float reduce_angle(float x, out uint quadrant) {
    uint u = magnitude_bits(x);
    quadrant = 0u;
    if (u < 0x3f490fdbu) { // already below pi/4
        return x;
    }
    // |x| = mantissa * 2^(e - 150): turns = mantissa * 2^(e-150) / (2*pi), of which only the fraction counts.
    uint mantissa = (u & 0x7fffffu) | 0x800000u;
    uvec2 bits = inverse_two_pi((u >> 23) - 118u);
    uint high, low;
    umulExtended(mantissa, bits.y, high, low);
    uint turn = mantissa * bits.x + high; // in 2^-32 of a turn
    quadrant = (turn + 0x20000000u) >> 30;
    float r = float(int(turn - (quadrant << 30))) * 1.46291807926715968e-9; // 2*pi / 2^32
    if (is_negative(x)) {
        quadrant = (4u - quadrant) & 3u;
        r = -r;
    }
    return r;
}

float sin_poly(float r) { // |r| <= pi/4
    float z = r * r;
    float q = ((2.7246333e-06 * z - 0.000198400594) * z + 0.00833333191) * z - 0.166666672;
    return r + r * z * q;
}

float cos_poly(float r) {
    float z = r * r;
    return 1.0 + z * (z * ((2.45449774e-05 * z - 0.00138882897) * z + 0.0416666642) - 0.5);
}

// (sin x, cos x), to about 1e-7 for every finite x.
vec2 m_sincos(float x) {
    if (magnitude_bits(x) >= INF_BITS) {
        return vec2(make_nan());
    }
    uint quadrant;
    float r = reduce_angle(x, quadrant);
    vec2 sc = vec2(sin_poly(r), cos_poly(r));
    if ((quadrant & 1u) != 0u) {
        sc = vec2(sc.y, -sc.x);
    }
    return (quadrant & 2u) != 0u ? -sc : sc;
}

float m_sin(float x) { return magnitude_bits(x) == 0u ? x : m_sincos(x).x; } // -0 stays
float m_cos(float x) { return m_sincos(x).y; }

// --- functions of the exponential ---

// a * b = x + y exactly (Dekker): halves of 12 bits multiply without rounding.
vec2 product_exact(float a, float b) {
    float ah = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u);
    float bh = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
    precise float al = a - ah;
    precise float bl = b - bh;
    precise float p = a * b;
    precise float error = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return vec2(p, error);
}

float m_tanh(float x) {
    if (is_nan(x) || magnitude_bits(x) == 0u) { // -0 stays
        return x;
    }
    float a = abs(x);
    if (a < 0.65) {
        float z = x * x;
        float q = -0.00592372613;
        q = q * z + 0.0208734609;
        q = q * z - 0.0538237579;
        q = q * z + 0.13332583;
        q = q * z - 0.333333284;
        return x + x * z * q;
    }
    return with_sign_of(1.0 - 2.0 / (m_exp(2.0 * min(a, 20.0)) + 1.0), x);
}

float m_sigmoid(float x) {
    float z = m_exp(-abs(x));
    return (is_negative(x) ? z : 1.0) / (1.0 + z);
}

float m_silu(float x) { return x * m_sigmoid(x); }

float erf_small(float x) { // |x| <= 1
    float z = x * x;
    float q = 7.84301956e-05;
    q = q * z - 0.000800776121;
    q = q * z + 0.00518814893;
    q = q * z - 0.02685377;
    q = q * z + 0.112835854;
    q = q * z - 0.37612626;
    return x * (q * z + 1.12837911);
}

// 1 - erf(t) for t >= 1, where tt is t * t as a sum of two floats:
// exp(-t*t) * q((t-2)/(t+2)) / (t+2), q fitted to t = 11, where it has vanished.
float erfc_large(float t, vec2 tt) {
    float v = (t - 2.0) / (t + 2.0);
    float q = -0.00148385006;
    q = q * v + 0.00317855319;
    q = q * v + 0.00659305369;
    q = q * v - 0.0215428602;
    q = q * v - 0.0364478156;
    q = q * v + 0.279473841;
    q = q * v - 0.687160611;
    q = q * v + 1.02158272;
    return m_exp(-tt.x) * (1.0 - tt.y) * q / (t + 2.0);
}

float m_erf(float x) {
    if (is_nan(x)) {
        return x;
    }
    float a = min(abs(x), 11.0);
    return a <= 1.0 ? erf_small(x) : with_sign_of(1.0 - erfc_large(a, product_exact(a, a)), x);
}

// x * (1 + erf(x/sqrt(2))) / 2, without cancellation for negative x.
float m_gelu(float x) {
    if (is_nan(x)) {
        return x;
    }
    if (abs(x) <= 1.41421354) {
        return 0.5 * x * (1.0 + erf_small(x * 0.707106781));
    }
    float a = min(abs(x), 15.5);
    float half_erfc = 0.5 * erfc_large(a * 0.707106781, 0.5 * product_exact(a, a));
    return is_negative(x) ? x * half_erfc : x * (1.0 - half_erfc);
}

#endif
