// Handles rows of x with infinities. Kernels that sum scale * Σ code·x + bias * Σ
// x get NaN for them, where the sum of the weights' own products may be an
// infinity. So whenever a result is not finite, the products of those elements of
// x that are not finite are added up again, weight by weight; no finite element
// can change their sum.
#ifndef NOT_FINITE_GLSL
#define NOT_FINITE_GLSL

#include "math.glsl"

// n, as a bound that the compiler cannot compute; at_least_1 is a number that it does not know, 1 or more. Drivers unroll
// loops of a known count although they are told not to, and code that hardly ever runs would then push other code out of
// the caches of instructions.
#define HIDDEN(n, at_least_1) min((n), (n) - 1 + (at_least_1))

bool is_finite(float v) { return magnitude_bits(v) < INF_BITS; }
bool all_finite(vec4 v) { return is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w); }

// The final result, given the sum of the products of elements that are not finite, if there are any.
float mended(float v, float sum) { return is_finite(sum) ? v : sum; }

float affine_weight(float scale, uint code, float bias) {
    precise float product = scale * float(code);
    precise float weight = product + bias;
    return weight;
}

#endif
