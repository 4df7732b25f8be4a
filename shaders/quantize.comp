// Quantizes x, whose rows are whole groups: words of codes, and a scale (and a bias) per group, all dense. A thread
// handles QUADS times four neighbours, a workgroup whole groups. Results have the same bits on every device: where the
// device's own arithmetic may give another code, divide.glsl divides.
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
layout(constant_id = 7) const uint DENSE = 0;  // whether rows follow one another
layout(constant_id = 8) const uint QUADS = 1;  // of a thread: quad j of the workgroup is that of thread j % its threads

layout(push_constant) uniform Push { QuantizeParams p; };

#define MOST_THREADS 256

// For each quad of the workgroup:
shared uint least[MOST_THREADS * QUADS];   // order keys; for the first quad of a group, then its scale
shared uint largest[MOST_THREADS * QUADS]; // order keys or magnitudes; then the group's bias
shared uint codes[MOST_THREADS * QUADS];   // next to each other

const uint TOP = (1u << BITS) - 1u;
const uint SIGN = 0x80000000u;
const uint LARGE = 0x4b000000u; // 2^23

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

// Whether codes of a group may be found by the device's own operations: for a scale in this range, a reciprocal is off
// by up to 2.5 units in the last place. They may lose quotients and differences that are subnormal numbers, but those
// have the code of zero.
bool scales_well(uint scale) { return (scale & ~SIGN) - 0x0f000000u < 0x60000000u; } // from 2^-97 to 2^95

// 1/scale; exactly, if it is a power of two.
float reciprocal(uint scale) {
    bool power_of_two = MODE != QUANTIZATION_AFFINE && MODE != QUANTIZATION_NVFP4;
    return power_of_two ? uintBitsToFloat(0x7f000000u - scale) : 1.0 / uintBitsToFloat(scale);
}

// The affine code of an element that is not NaN, by these operations. It is not sure to be right for infinities, nor
// near the middle between two codes.
uint likely_affine_code(uint v, float by, uint bias, out bool sure) {
    float q = uintBitsToFloat(minus(v, bias)) * by;
    float code = roundEven(q);
    sure = abs(q) < 512.0 && abs(q - code) < 0.5 - float(TOP + 1u) * 9.5367431640625e-7; // 2^-20
    return uint(clamp(code, 0.0, float(TOP)));
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
    if (magnitude >= LARGE) {
        return e2m1_by_distance(q);
    }
    float m = uintBitsToFloat(magnitude);
    uint code = uint(m > 0.25) + uint(m > 0.75) + uint(m > 1.25) + uint(m > 1.75) + uint(m > 2.5) + uint(m > 3.5) +
                uint(m > 5.0);
    return code == 0u ? 0u : code | ((q & SIGN) >> 28);
}

// The code of a quotient of x's element type.
uint code_of(uint q) { return BITS == 4 ? e2m1_code(q) : float_to_e4m3(q); }

// E2M1 codes change at numbers with zeros in the last 21 bits, or at what is rounded to more than those: half a unit in
// the last place of x's element type.
const uint CHANGE = x_DT == DT_FLOAT32 ? 0u : x_DT == DT_BFLOAT16 ? 1u << 15 : 1u << 12;

// The code of a small float by the device's own operations, if v is not NaN. If the scale is no power of two, it is not
// sure to be right for large quotients, nor next to where the code changes.
uint likely_element_code(uint v, float by, out bool sure) {
    uint q = floatBitsToUint(uintBitsToFloat(v & ~SIGN) * by);
    sure = MODE != QUANTIZATION_NVFP4 || q == 0u || (q < LARGE && ((q - CHANGE + 8u) & 0x1fffffu) > 16u);
    return code_of(rounded(q | (v & SIGN)));
}

uint element_code(uint v, uint scale) {
    if (scale == BITS_INF) { // e8m0's 255: the group has no value
        return 0u;
    }
    return code_of(rounded(divide_bits(v, scale)));
}

uint quad_of(uint j) { return gl_LocalInvocationIndex + j * gl_WorkGroupSize.x; }

// Elements i to i + 3 as the bits of float32.
uvec4 load4(uint i) {
    uint at = p.x.offset + i;
    if (DENSE == 0u) {
        uint row = i / p.x.cols;
        at = row_start(p.x, row) + (i - row * p.x.cols) * p.x.col_stride;
    }
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

// Stores the scale and bias of group g, also in shared memory in place of the extremes of its quads, of which this is
// the first. Threads begin with different ones, which are in different banks if there are 32 of them.
void choose_factors(uint quad, uint quads, uint g) {
    uint lo = 0xffffffffu, hi = 0u;
    for (uint k = 0u; k < quads; k++) {
        uint at = quad + (((quad >> 5) + k) & (quads - 1u));
        lo = min(lo, least[at]);
        hi = max(hi, largest[at]);
    }
    if (MODE == QUANTIZATION_AFFINE) {
        uvec2 f = affine_factors(of_key(lo), of_key(hi));
        least[quad] = f.x;
        largest[quad] = f.y;
        scales_set_bits(p.s_offset + g, scales_DT == DT_FLOAT32 ? f.x : float_to_bits(uintBitsToFloat(f.x), scales_DT));
        biases_set_bits(p.b_offset + g, biases_DT == DT_FLOAT32 ? f.y : float_to_bits(uintBitsToFloat(f.y), biases_DT));
    } else {
        uint code = scale_code(hi);
        least[quad] = scale_bits(code);
        scales_set_bits(p.s_offset + g, code);
    }
}

// The 32 bits from bit 32 * i on of this workgroup's stream of codes.
uint packed_word(uint i) {
    const uint width = 4u * BITS; // of a quad's codes
    uint word = 0u;
    uint bit = i * 32u;
    for (uint c = bit / width; c * width < bit + 32u; c++) {
        uint at = c * width;
        word |= at >= bit ? codes[c] << (at - bit) : codes[c] >> (bit - at);
    }
    return word;
}

// The codes of a quad, next to each other.
uint packed_codes(uvec4 v, uint scale, uint bias) {
    uvec4 code;
    bvec4 sure;
    float by = reciprocal(scale);
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
        bool is_sure;
        code[k] = MODE == QUANTIZATION_AFFINE ? likely_affine_code(v[k], by, bias, is_sure)
                                              : likely_element_code(v[k], by, is_sure);
        sure[k] = is_sure && scales_well(scale) && !is_nan_bits(v[k]); // floats need not tell NaN
    }
    if (!all(sure)) {
        [[dont_unroll]] for (uint k = 0u; k < 4u; k++) { // an index that varies would move vectors to memory
            if (!sure.x) {
                code.x = MODE == QUANTIZATION_AFFINE ? affine_code(v.x, scale, bias) : element_code(v.x, scale);
            }
            v = v.yzwx, code = code.yzwx, sure = sure.yzwx;
        }
    }
    return code.x | (code.y << BITS) | (code.z << 2u * BITS) | (code.w << 3u * BITS);
}

void main() {
    uint lane = gl_LocalInvocationIndex, quads_shift = p.group_shift - 2u; // log2 of the quads of a group
    uint block = workgroup_index();
    if (block >= p.blocks) {
        return;
    }
    uint quads = gl_WorkGroupSize.x * QUADS, begin = 4u * block * quads;
    uvec4 v[QUADS];
    [[unroll]] for (uint j = 0u; j < QUADS; j++) {
        uint i = begin + 4u * quad_of(j);
        v[j] = i < p.n ? load4(i) : uvec4(0u);
    }
    [[unroll]] for (uint j = 0u; j < QUADS; j++) {
        uvec2 e = extremes(v[j]);
        least[quad_of(j)] = e.x;
        largest[quad_of(j)] = e.y;
    }
    barrier();
    // Neighbouring threads, so that few subgroups take the time of divide_bits.
    for (uint group = lane; group < quads >> quads_shift; group += gl_WorkGroupSize.x) {
        uint group_begin = begin + (group << p.group_shift);
        if (group_begin < p.n) {
            choose_factors(group << quads_shift, 1u << quads_shift, group_begin >> p.group_shift);
        }
    }
    barrier();
    [[unroll]] for (uint j = 0u; j < QUADS; j++) {
        uint quad = quad_of(j), first = quad >> quads_shift << quads_shift;
        codes[quad] = packed_codes(v[j], least[first], largest[first]);
    }
    barrier();
    uint words = quads / 8u * BITS;
    for (uint word = lane; word < words; word += gl_WorkGroupSize.x) {
        uint to = block * words + word;
        if (to < p.n / 32u * BITS + p.n % 32u * BITS / 32u) {
            w.data[p.w_offset + to] = packed_word(word);
        }
    }
}
