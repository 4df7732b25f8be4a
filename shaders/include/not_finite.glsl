// Rows of x with infinities. Kernels that sum scale * Σ code·x + bias * Σ x have
// NaN there, where the weights' own products may be an infinity. So whenever a
// result is not finite, the products of what is not finite in x are added up once
// more, weight by weight; nothing finite can change their sum.
#ifndef NOT_FINITE_GLSL
#define NOT_FINITE_GLSL

#include "math.glsl"

bool is_finite(float v) { return magnitude_bits(v) < INF_BITS; }
bool all_finite(vec4 v) { return is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w); }

// A result, if the products of what is not finite, if anything, have this sum.
float mended(float v, float sum) { return is_finite(sum) ? v : sum; }

float affine_weight(float scale, uint code, float bias) {
    precise float product = scale * float(code);
    precise float weight = product + bias;
    return weight;
}

#endif
