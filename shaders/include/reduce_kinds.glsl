// The arithmetic of the reduce op: what a partial result is, how an element is added
// to it, how two are combined, and the final result. A partial result is two words:
//
//   sum, mean         a float32 and what rounding took from it, or a wrapping integer
//   prod              a float32 or a wrapping integer
//   amax, amin        a key that orders like the elements, a NaN largest
//   arg_max, arg_min, greedy  such a key, and the index
//   all, any          0 or 1
//   log_sum_exp       the largest element m, and the sum of exp(x - m)
//
// The kernel defines KIND, x_DT and y_DT.
#ifndef REDUCE_KINDS_GLSL
#define REDUCE_KINDS_GLSL

#include "convert.glsl"
#include "math.glsl"

const bool LEAST = KIND == REDUCE_AMIN || KIND == REDUCE_ARG_MIN;
const bool INDEXED = KIND == REDUCE_ARG_MAX || KIND == REDUCE_ARG_MIN || KIND == REDUCE_GREEDY;
const bool EXTREME = INDEXED || KIND == REDUCE_AMAX || KIND == REDUCE_AMIN;
const bool IN_FLOAT = KIND == REDUCE_MEAN || KIND == REDUCE_LOG_SUM_EXP || x_DT <= DT_BFLOAT16;

uint float_sign(uint dtype) { return dtype == DT_FLOAT32 ? 0x80000000u : 0x8000u; }

// Like order_key, but -0 comes before +0, so that the key determines the element.
uint element_key(uint bits) {
    if (!is_float_dtype(x_DT)) {
        return order_key(bits, x_DT);
    }
    uint sign_bit = float_sign(x_DT);
    return (bits & sign_bit) != 0u ? ~bits & (sign_bit * 2u - 1u) : bits | sign_bit;
}

uint key_element(uint key) {
    if (!is_float_dtype(x_DT)) {
        return order_key(key, x_DT); // its own inverse
    }
    uint sign_bit = float_sign(x_DT);
    return (key & sign_bit) != 0u ? key ^ sign_bit : ~key & (sign_bit * 2u - 1u);
}

uint extreme_key(uint bits) {
    if (bits_nan(bits, x_DT)) {
        return 0xffffffffu;
    }
    uint key = INDEXED ? order_key(bits, x_DT) : element_key(bits);
    return LEAST ? ~key : key;
}

uvec2 reduction_identity() {
    if (EXTREME) {
        return uvec2(0u, INDEXED ? 0xffffffffu : 0u);
    }
    switch (KIND) {
    case REDUCE_PROD: return uvec2(IN_FLOAT ? floatBitsToUint(1.0) : 1u, 0u);
    case REDUCE_ALL: return uvec2(1u, 0u);
    case REDUCE_LOG_SUM_EXP: return uvec2(floatBitsToUint(-make_inf()), 0u);
    default: return uvec2(0u);
    }
}

// exp(x - top) of x <= top. The difference comes first, so that rounding raises none above 1.
vec4 exps_below(vec4 x, float top) { return exp2((x - top) * LOG2_E); }

// The same for one x; both may be infinite.
float exp_below(float x, float top) {
    return floatBitsToUint(x) == floatBitsToUint(top) ? 1.0 : exp2((x - top) * LOG2_E);
}

uvec2 join_exps(uvec2 a, uvec2 b) {
    float x = uintBitsToFloat(a.x);
    float y = uintBitsToFloat(b.x);
    bool rises = x < y;
    float top = rises ? y : x;
    float factor = exp_below(rises ? x : y, top);
    float sum = rises ? uintBitsToFloat(a.y) * factor + uintBitsToFloat(b.y)
                      : uintBitsToFloat(a.y) + uintBitsToFloat(b.y) * factor;
    return uvec2(floatBitsToUint(top), floatBitsToUint(sum));
}

vec4 floats_of(uvec4 bits) {
    return vec4(bits_to_float(bits.x, x_DT), bits_to_float(bits.y, x_DT), bits_to_float(bits.z, x_DT),
                bits_to_float(bits.w, x_DT));
}

// What JOIN_EXPS needs to know about its elements first: their maximum, and a sum that is NaN if one of them is, but also
// if infinities of both signs meet in it.
struct Extent {
    float top, total;
};

Extent extended(Extent e, vec4 v) {
    return Extent(max(e.top, max(max(v.x, v.y), max(v.z, v.w))), e.total + ((v.x + v.y) + (v.z + v.w)));
}

bool any_nan(uvec4 bits) {
    return bits_nan(bits.x, x_DT) || bits_nan(bits.y, x_DT) || bits_nan(bits.z, x_DT) || bits_nan(bits.w, x_DT);
}

// Joins n quads with a partial result of log_sum_exp. The result's bits depend on n, and so on AHEAD. Since their largest
// element is found first, each takes one exponential and fewer than half of the instructions of join_exps.
#define JOIN_EXPS(partial_, v, n) { \
    Extent extent = Extent(uintBitsToFloat(partial_.x), 0.0); \
    [[unroll]] for (uint j = 0u; j < n; j++) { \
        extent = extended(extent, floats_of(v[j])); \
    } \
    float top = extent.top, sum = uintBitsToFloat(partial_.y); \
    if (is_inf(top)) { \
        sum = is_nan(sum) ? sum : 1.0; \
    } else { \
        sum *= exp_below(uintBitsToFloat(partial_.x), top); \
        [[unroll]] for (uint j = 0u; j < n; j++) { \
            vec4 e = exps_below(floats_of(v[j]), top); \
            sum += (e.x + e.y) + (e.z + e.w); \
        } \
    } \
    if (is_nan(extent.total)) { \
        [[unroll]] for (uint j = 0u; j < n; j++) { \
            sum = any_nan(v[j]) ? make_nan() : sum; \
        } \
    } \
    partial_ = uvec2(floatBitsToUint(top), floatBitsToUint(sum)); \
}

// Sums of floats carry their rounding error (compensated summation), so that they are accurate however many elements
// they have. The error of an infinite sum is meaningless, and reduction_result ignores it.
uvec2 join_sums(uvec2 a, uvec2 b) {
    float x = uintBitsToFloat(a.x);
    float y = uintBitsToFloat(b.x);
    precise float sum = x + y;
    precise float of_y = sum - x;
    precise float of_x = sum - of_y;
    precise float lost = (x - of_x) + (y - of_y);
    precise float carried = uintBitsToFloat(a.y) + uintBitsToFloat(b.y) + lost;
    return uvec2(floatBitsToUint(sum), floatBitsToUint(carried));
}

float whole_sum(uvec2 v) {
    float sum = uintBitsToFloat(v.x);
    return is_nan(sum) || is_inf(sum) ? sum : sum + uintBitsToFloat(v.y);
}

uvec2 join(uvec2 a, uvec2 b) {
    if (EXTREME && !INDEXED) {
        return uvec2(max(a.x, b.x), 0u);
    }
    if (INDEXED) {
        return b.x > a.x || (b.x == a.x && b.y < a.y) ? b : a;
    }
    switch (KIND) {
    case REDUCE_ALL: return a & b;
    case REDUCE_ANY: return a | b;
    case REDUCE_LOG_SUM_EXP: return join_exps(a, b);
    }
    if (KIND == REDUCE_PROD) {
        return uvec2(IN_FLOAT ? floatBitsToUint(uintBitsToFloat(a.x) * uintBitsToFloat(b.x)) : a.x * b.x, 0u);
    }
    return IN_FLOAT ? join_sums(a, b) : uvec2(a.x + b.x, 0u);
}

// A 32-bit integer as the float32 next to it and the rest, which is exact: with it, sums of integers are as accurate as
// those of floats.
uvec2 integer_parts(uint bits) {
    uint upper = bits & 0xffff0000u; // 16 bits are exact in a float32
    precise float high = x_DT == DT_INT32 ? float(int(upper)) : float(upper);
    precise float low = float(bits & 0xffffu);
    precise float nearest = high + low;
    precise float rest = low - (nearest - high);
    return uvec2(floatBitsToUint(nearest), floatBitsToUint(rest));
}

// The partial result of one element.
uvec2 partial_of(uint bits, uint column) {
    if (EXTREME) {
        return uvec2(extreme_key(bits), INDEXED ? column : 0u);
    }
    if (KIND == REDUCE_ALL || KIND == REDUCE_ANY) {
        return uvec2(uint(bits_nonzero(bits, x_DT)), 0u);
    }
    if (KIND == REDUCE_MEAN && (x_DT == DT_INT32 || x_DT == DT_UINT32)) {
        return integer_parts(bits);
    }
    float v = bits_to_float(bits, x_DT);
    if (KIND == REDUCE_LOG_SUM_EXP) {
        return is_nan(v) ? uvec2(floatBitsToUint(-make_inf()), floatBitsToUint(v)) : uvec2(floatBitsToUint(v), floatBitsToUint(1.0));
    }
    return uvec2(IN_FLOAT ? floatBitsToUint(v) : bits, 0u);
}

float log_sum_exp(float top, float sum) {
    if (is_nan(sum)) {
        return sum;
    }
    return is_inf(top) ? top : top + m_log(sum);
}

// Whether an extreme_key is that of a finite float.
bool is_finite_key(uint key) {
    return key > order_key(float_to_bits(-make_inf(), x_DT), x_DT) && key < order_key(float_to_bits(make_inf(), x_DT), x_DT);
}

// The bits of the result.
uint reduction_result(uvec2 v, float count) {
    if (KIND == REDUCE_GREEDY && !is_finite_key(v.x)) {
        return 0xffffffffu;
    }
    if (INDEXED) {
        return v.y;
    }
    if (EXTREME) {
        if (is_float_dtype(x_DT) && v.x == 0xffffffffu) {
            return float_to_bits(make_nan(), y_DT);
        }
        return key_element(LEAST ? ~v.x : v.x);
    }
    switch (KIND) {
    case REDUCE_LOG_SUM_EXP: return float_to_bits(log_sum_exp(uintBitsToFloat(v.x), uintBitsToFloat(v.y)), y_DT);
    case REDUCE_MEAN: return float_to_bits(m_div(whole_sum(v), count), y_DT);
    case REDUCE_SUM: return IN_FLOAT ? float_to_bits(whole_sum(v), y_DT) : v.x;
    case REDUCE_PROD: return IN_FLOAT ? float_to_bits(uintBitsToFloat(v.x), y_DT) : v.x;
    default: return v.x;
    }
}

#endif
