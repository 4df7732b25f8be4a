// Handles rows of x with infinities. Kernels that sum scale * Σ code·x + bias * Σ
// x get NaN for them, where the sum of the weights' own products may be an
// infinity. So whenever a result is not finite, the products of those elements of
// x that are not finite are added up again, weight by weight; no finite element
// can change their sum.
#ifndef NOT_FINITE_GLSL
#define NOT_FINITE_GLSL

#include "hidden.glsl"
#include "math.glsl"

bool is_finite(float v) { return magnitude_bits(v) < INF_BITS; }
bool all_finite(vec4 v) { return is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w); }

// The final result, given the sum of the products of elements that are not finite, if there are any.
float mended(float v, float sum) { return is_finite(sum) ? v : sum; }

// The body of a function that returns the sum of the products of elements that are not finite. x: four elements of a row, of
// columns 4j to 4j + 3 of a unit; weight: that of code `code` of a unit; rows: any number that is not 0.
#define SUM_NOT_FINITE(units, rows, x, weight) \
    float sum = 0.0; \
    [[dont_unroll]] for (uint unit = 0; unit < (units); unit++) { \
        [[dont_unroll]] for (uint j = 0; j < HIDDEN(8, rows); j++) { \
            vec4 v = x; \
            [[dont_unroll]] for (uint c = all_finite(v) ? 4 : 0; c < HIDDEN(4, rows); c++) { \
                uint code = 4 * j + c; \
                sum += is_finite(v[c]) ? 0.0 : (weight) * v[c]; \
            } \
        } \
    } \
    return sum;

float affine_weight(float scale, uint code, float bias) {
    precise float product = scale * float(code);
    precise float weight = product + bias;
    return weight;
}

#endif
