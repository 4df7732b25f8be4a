// Quantizes x, whose rows are whole groups: words of codes, and a scale (and a
// bias) per group, all dense. A thread handles four neighbours, a workgroup
// whole groups. Every step gives the same bits on every device: see
// divide.glsl.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "quads.glsl"
#include "rows.glsl"
#include "divide.glsl"
#include "minifloat.glsl"

TENSOR_IN(0, x, 1)
QUAD_BITS_IN(0, x)
layout(set = 0, binding = 1) writeonly buffer w_Block { uint data[]; } w;
TENSOR_OUT(2, scales, 2)
TENSOR_OUT(3, biases, 3)
layout(constant_id = 4) const uint BITS = 4;
layout(constant_id = 5) const uint MODE = QUANTIZATION_AFFINE;
layout(constant_id = 6) const uint VECTOR = 0; // whether four neighbours are one load

layout(push_constant) uniform Push { QuantizeParams p; };

#define MOST_THREADS 256

shared uint least[MOST_THREADS];   // order keys; then the group's scale
shared uint largest[MOST_THREADS]; // order keys or magnitudes; then the group's bias
shared uint codes[4 * MOST_THREADS];

const uint TOP = (1u << BITS) - 1u;
const uint SIGN = 0x80000000u;

bool is_nan_bits(uint v) { return (v & ~SIGN) > BITS_INF; }

// order_key of a float32, and back.
uint key_of(uint v) { return order_key(v, DT_FLOAT32); }
uint of_key(uint k) { return k >= SIGN ? k - SIGN : (SIGN - k) | SIGN; }

// v rounded to x's element type.
uint rounded(uint v) {
    return x_DT == DT_FLOAT32 ? v : floatBitsToUint(bits_to_float(float_to_bits(uintBitsToFloat(v), x_DT), x_DT));
}

uint minus(uint a, uint b) {
    precise float d = uintBitsToFloat(a) - uintBitsToFloat(b);
    return floatBitsToUint(d);
}

uint nearest_integer(uint v) { return is_nan_bits(v) ? v : floatBitsToUint(roundEven(uintBitsToFloat(v))); }

// Scale and bias of a group from its smallest and largest element, apart from NaNs.
uvec2 affine_factors(uint lo, uint hi) {
    const uint smallest = 0x33d6bf95u; // 1e-7
    bool low_edge = (lo & ~SIGN) > (hi & ~SIGN);
    uint edge = low_edge ? lo : hi;
    uint scale = divide_bits(minus(hi, lo), floatBitsToUint(float(TOP)));
    if (!is_nan_bits(scale) && int(scale) < int(smallest)) {
        scale = smallest;
    }
    scale ^= low_edge ? 0u : SIGN;
    uint steps = nearest_integer(divide_bits(edge, scale));
    return (steps & ~SIGN) != 0u ? uvec2(divide_bits(edge, steps), edge) : uvec2(scale, 0u);
}

uint affine_code(uint v, uint scale, uint bias) {
    uint q = is_nan_bits(v) ? v : divide_bits(minus(v, bias), scale);
    if (is_nan_bits(q) || (q & SIGN) != 0u) {
        return 0u;
    }
    return uint(min(roundEven(uintBitsToFloat(min(q, 0x44000000u))), float(TOP))); // of at most 512
}

// The code of a group's scale, from its largest magnitude. Scales that are
// powers of two are rounded up, so that no element leaves the range; NaN and
// infinity give 255.
uint scale_code(uint magnitude) {
    uint s = rounded(divide_bits(magnitude, floatBitsToUint(BITS == 4 ? 6.0 : 448.0)));
    if (MODE == QUANTIZATION_NVFP4) {
        return float_to_e4m3(s);
    }
    if (s >= BITS_INF) {
        return 255u;
    }
    if (s == 0u) {
        return 127u;
    }
    return (s >> 23) + uint((s & 0x7fffffu) > ((s >> 23) == 0u ? 0x400000u : 0u)); // code 0 is 2^-127
}

uint scale_bits(uint code) {
    return MODE == QUANTIZATION_NVFP4 ? floatBitsToUint(e4m3_to_float(code)) : e8m0_bits(code);
}

// The nearest E2M1 code, or the first of several that are equally near. Distances are rounded to float32, so those
// of large numbers are often equal.
uint e2m1_by_distance(uint q) {
    uint best = 0u, distance = q & ~SIGN;
    for (uint c = 1u; c < 16u && distance < BITS_INF; c++) {
        uint d = minus(q, floatBitsToUint(e2m1_to_float(c))) & ~SIGN;
        if (d < distance) {
            distance = d;
            best = c;
        }
    }
    return best;
}

// The nearest E2M1 code: ties go to the smaller magnitude, and there is no -0.
uint e2m1_code(uint q) {
    uint magnitude = q & ~SIGN;
    if (magnitude >= 0x4b000000u) { // 2^23
        return e2m1_by_distance(q);
    }
    float m = uintBitsToFloat(magnitude);
    uint code = uint(m > 0.25) + uint(m > 0.75) + uint(m > 1.25) + uint(m > 1.75) + uint(m > 2.5) + uint(m > 3.5) +
                uint(m > 5.0);
    return code == 0u ? 0u : code | ((q & SIGN) >> 28);
}

uint element_code(uint v, uint scale) {
    if (scale == BITS_INF) { // e8m0's 255: the group has no value
        return 0u;
    }
    uint q = rounded(divide_bits(v, scale));
    return BITS == 4 ? e2m1_code(q) : float_to_e4m3(q);
}

// Reduces least and largest over the threads of a group; the first of them gets the result.
void reduce(uint lane, uint team) {
    for (uint half_team = team >> 1; half_team > 0u; half_team >>= 1) {
        barrier();
        if ((lane & (team - 1u)) < half_team) {
            least[lane] = min(least[lane], least[lane + half_team]);
            largest[lane] = max(largest[lane], largest[lane + half_team]);
        }
    }
}

// Elements i to i + 3 as the bits of float32.
uvec4 load4(uint i) {
    uint row = i / p.x.cols;
    uint at = row_start(p.x, row) + (i - row * p.x.cols) * p.x.col_stride;
    uvec4 v;
    if (VECTOR != 0u) {
        v = x_quad_bits(at);
    } else {
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            v[k] = x_bits(at + k * p.x.col_stride);
        }
    }
    [[unroll]] for (uint k = 0u; x_DT != DT_FLOAT32 && k < 4u; k++) {
        v[k] = floatBitsToUint(bits_to_float(v[k], x_DT));
    }
    return v;
}

// The extremes of four elements: the smallest and the largest, or the largest magnitude.
uvec2 extremes(uvec4 v) {
    uvec2 e = uvec2(MODE == QUANTIZATION_AFFINE ? 0xffffffffu : 0u, 0u);
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        if (MODE == QUANTIZATION_AFFINE) {
            bool nan = is_nan_bits(v[k]);
            e.x = min(e.x, key_of(nan ? BITS_INF : v[k]));
            e.y = max(e.y, key_of(nan ? BITS_INF | SIGN : v[k]));
        } else {
            e.y = max(e.y, v[k] & ~SIGN);
        }
    }
    return e;
}

// Stores the group's scale and bias, also in shared memory in place of its extremes.
void choose_factors(uint lane, uint g) {
    if (MODE == QUANTIZATION_AFFINE) {
        uvec2 f = affine_factors(of_key(least[lane]), of_key(largest[lane]));
        least[lane] = f.x;
        largest[lane] = f.y;
        scales_set_bits(p.s_offset + g, scales_DT == DT_FLOAT32 ? f.x : float_to_bits(uintBitsToFloat(f.x), scales_DT));
        biases_set_bits(p.b_offset + g, biases_DT == DT_FLOAT32 ? f.y : float_to_bits(uintBitsToFloat(f.y), biases_DT));
    } else {
        uint code = scale_code(largest[lane]);
        least[lane] = scale_bits(code);
        scales_set_bits(p.s_offset + g, code);
    }
}

// The 32 bits from bit 32 * i on of this workgroup's stream of codes.
uint packed_word(uint i) {
    uint word = 0u;
    uint bit = i * 32u;
    for (uint c = bit / BITS; c * BITS < bit + 32u; c++) {
        uint at = c * BITS;
        word |= at >= bit ? codes[c] << (at - bit) : codes[c] >> (bit - at);
    }
    return word;
}

void main() {
    uint lane = gl_LocalInvocationIndex, team = 1u << (p.group_shift - 2u); // threads of a group
    uint block = workgroup_index();
    if (block >= p.blocks) {
        return;
    }
    uint i = 4u * (block * gl_WorkGroupSize.x + lane);
    bool inside = i < p.n;
    uvec4 v = uvec4(0u);
    if (inside) {
        v = load4(i);
    }
    uvec2 e = extremes(v);
    least[lane] = e.x;
    largest[lane] = e.y;
    reduce(lane, team);
    if ((lane & (team - 1u)) == 0u && inside) {
        choose_factors(lane, i >> p.group_shift);
    }
    barrier();
    uint first = lane & ~(team - 1u);
    for (uint k = 0u; k < 4u; k++) {
        codes[4u * lane + k] =
            MODE == QUANTIZATION_AFFINE ? affine_code(v[k], least[first], largest[first]) : element_code(v[k], least[first]);
    }
    barrier();
    uint words = gl_WorkGroupSize.x / 8u * BITS;
    for (uint word = lane; word < words; word += gl_WorkGroupSize.x) {
        uint to = block * words + word;
        if (to < p.n / 32u * BITS + p.n % 32u * BITS / 32u) {
            w.data[p.w_offset + to] = packed_word(word);
        }
    }
}
