// Frequencies of rotary position embedding. Before the include: the push
// constants p, with step_high and step_low of RoPEParams (params_attention.h).
#ifndef ROTARY_GLSL
#define ROTARY_GLSL

#include "math.glsl"

// base^(-2i/dims), to about 1e-7: the exponent of 2 is kept as a sum of two floats.
float inverse_frequency(uint i) {
    float high = float(i) * p.step_high;
    float n = floor(high + 0.5);
    float f = (high - n) + float(i) * p.step_low;
    float q = 1.52982211e-05; // 2^f, |f| <= 1/2
    q = q * f + 0.000154626105;
    q = q * f + 0.00133334997;
    q = q * f + 0.00961805414;
    q = q * f + 0.0555041097;
    q = q * f + 0.240226507;
    q = q * f + 0.693147182;
    return scale_by(q * f + 1.0, int(clamp(n, -250.0, 250.0)));
}

// a / b, nearly correctly rounded: in large angles, an error of a unit in the last place would matter.
float quotient(float a, float b) {
    precise float q = a / b;
    if (magnitude_bits(q) >= INF_BITS || magnitude_bits(b) >= INF_BITS) {
        return q;
    }
    precise float r = fma(-q, b, a);
    return q + r / b;
}

#endif
