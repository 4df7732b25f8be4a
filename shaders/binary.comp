// out = f(a, b) element by element, for any layouts. Integers are computed as
// integers. Comparisons, Max and Min look at the bits, so that NaNs and
// subnormals are treated alike on every device; arithmetic is in float32,
// rounded once at the store.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"
#include "integer.glsl"
#include "power.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, a, 1)
TENSOR_IN(1, b, 2)
TENSOR_OUT(2, y, 3)
layout(constant_id = 4) const uint RANK = 1;
layout(constant_id = 5) const uint KIND = BINARY_ADD;
layout(constant_id = 6) const uint QUADS = 0; // if set, the walk counts quads
layout(constant_id = 7) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk3Params p; };

#define WALK_ARRAYS 3
#define WALK_BATCH BATCH
#include "walk.glsl"
WALK_IN(0, a, 0u)
WALK_IN(1, b, 1u)
WALK_OUT(2, y)

bool compare(uint u, uint v) {
    bool nan = bits_nan(u, a_DT) || bits_nan(v, a_DT);
    uint ku = order_key(u, a_DT);
    uint kv = order_key(v, a_DT);
    switch (KIND) {
    case BINARY_EQUAL: return !nan && ku == kv;
    case BINARY_NOT_EQUAL: return nan || ku != kv;
    case BINARY_LESS: return !nan && ku < kv;
    case BINARY_LESS_EQUAL: return !nan && ku <= kv;
    case BINARY_GREATER: return !nan && ku > kv;
    case BINARY_GREATER_EQUAL: return !nan && ku >= kv;
    case BINARY_AND: return bits_nonzero(u, a_DT) && bits_nonzero(v, a_DT);
    default: return bits_nonzero(u, a_DT) || bits_nonzero(v, a_DT);
    }
}

// Max and Min: one of the operands, the second if they are equal; a NaN wins.
uint select(uint u, uint v) {
    if (bits_nan(u, a_DT)) {
        return u;
    }
    if (bits_nan(v, a_DT)) {
        return v;
    }
    uint ku = order_key(u, a_DT);
    uint kv = order_key(v, a_DT);
    return (KIND == BINARY_MIN ? ku < kv : ku > kv) ? u : v;
}

float arithmetic_float(float u, float v) {
    switch (KIND) {
    case BINARY_ADD: return u + v;
    case BINARY_SUB: return u - v;
    case BINARY_MUL: return u * v;
    case BINARY_DIV: return m_div(u, v);
    case BINARY_POW: return m_pow(u, v);
    default: return m_mod(u, v);
    }
}

uint arithmetic_integer(uint u, uint v) {
    bool is_signed = a_DT == DT_INT32;
    switch (KIND) {
    case BINARY_ADD: return u + v;
    case BINARY_SUB: return u - v;
    case BINARY_MUL: return u * v;
    case BINARY_DIV: return integer_div(u, v, is_signed);
    case BINARY_POW: return integer_pow(u, v, is_signed);
    case BINARY_MOD: return integer_mod(u, v, is_signed);
    case BINARY_BIT_AND: return u & v;
    case BINARY_BIT_OR: return u | v;
    case BINARY_BIT_XOR: return u ^ v;
    case BINARY_SHIFT_LEFT: return u << (v & 31u);
    default: return integer_shift_right(u, v, is_signed);
    }
}

uint binary_bits(uint u, uint v) {
    if (KIND >= BINARY_EQUAL && KIND <= BINARY_OR) {
        return uint(compare(u, v));
    }
    if (KIND == BINARY_MAX || KIND == BINARY_MIN) {
        return select(u, v);
    }
    if (!is_float_dtype(a_DT)) {
        return arithmetic_integer(u, v);
    }
    return float_to_bits(arithmetic_float(bits_to_float(u, a_DT), bits_to_float(v, a_DT)), a_DT);
}

WALK_2(y, binary_bits, a, b)
