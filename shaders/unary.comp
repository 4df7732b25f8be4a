// out = f(in) element by element, for any layouts. Neg, Abs, Not and everything
// on integers work on the bits; the rest is computed in float32, rounded once
// at the store.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"
#include "math.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint KIND = UNARY_NEG;
layout(constant_id = 5) const uint QUADS = 0; // if set, the walk counts quads
layout(constant_id = 6) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk2Params p; };

#define WALK_ARRAYS 2
#define WALK_BATCH BATCH
#include "walk.glsl"
WALK_IN(0, x, 0u)
WALK_OUT(1, y)

float unary_float(float v) {
    switch (KIND) {
    case UNARY_EXP: return m_exp(v);
    case UNARY_LOG: return m_log(v);
    case UNARY_SQRT: return m_sqrt(v);
    case UNARY_RSQRT: return m_rsqrt(v);
    case UNARY_SIN: return m_sin(v);
    case UNARY_COS: return m_cos(v);
    case UNARY_TANH: return m_tanh(v);
    case UNARY_SIGMOID: return m_sigmoid(v);
    case UNARY_SILU: return m_silu(v);
    case UNARY_GELU: return m_gelu(v);
    case UNARY_ERF: return m_erf(v);
    case UNARY_SQUARE: return v * v;
    case UNARY_FLOOR: return is_inf(v) ? v : floor(v);
    case UNARY_CEIL: return is_inf(v) ? v : ceil(v);
    case UNARY_ROUND: return is_inf(v) ? v : roundEven(v);
    default: return v;
    }
}

uint unary_integer(uint v) {
    switch (KIND) {
    case UNARY_NEG: return 0u - v;
    case UNARY_ABS: return x_DT == DT_INT32 && (v >> 31) != 0u ? 0u - v : v;
    case UNARY_SQUARE: return v * v;
    default: return v; // Floor, Ceil, Round
    }
}

uint unary_bits(uint bits) {
    uint sign_bit = x_DT == DT_FLOAT32 ? 0x80000000u : 0x8000u;
    if (KIND == UNARY_NOT) {
        return uint(!bits_nonzero(bits, x_DT));
    }
    if (!is_float_dtype(x_DT)) {
        return unary_integer(bits);
    }
    if (KIND == UNARY_NEG) {
        return bits ^ sign_bit;
    }
    if (KIND == UNARY_ABS) {
        return bits & ~sign_bit;
    }
    return float_to_bits(unary_float(bits_to_float(bits, x_DT)), x_DT);
}

WALK_1(y, unary_bits, x)
