// Quantized rows, one to a lane, for the kernels of CPU drivers: the words of a
// unit of 32 codes, and the codes as floats. Before a use: uint words[…].
//
// Codes of 4 bits are converted at their place in the half word, without a shift:
// weighted() first divides the factor of code 4j + i by 16^i.
#ifndef LANE_CODES_GLSL
#define LANE_CODES_GLSL

layout(constant_id = 6) const uint BITS = 4;

#include "code_words.glsl"

vec4 weighted(vec4 v) {
    if (BITS == 4) { // no ?: here, which some versions of Mesa compile wrongly for vectors
        v *= vec4(1.0, 1.0 / 16.0, 1.0 / 256.0, 1.0 / 4096.0);
    }
    return v;
}

// Code 4j + i of the unit whose words start at `from`; times 16^i if it has 4 bits.
#define lane_code(from, j, i) \
    (BITS == 4 ? float(int((words[(from) + ((j) >> 1)] >> (16u * ((j) & 1u))) & (15u << (4u * (i))))) \
               : float(int(any_code(from, (4u * (j) + (i)) * BITS))))

#define any_code(from, bit) \
    (((words[(from) + ((bit) >> 5)] >> ((bit) & 31u)) | \
      (((bit) & 31u) + BITS > 32u ? words[(from) + min(((bit) >> 5) + 1u, BITS - 1u)] << (32u - ((bit) & 31u)) : 0u)) & \
     ((1u << BITS) - 1u))

// A binding of words, and name_fetch(at, to): the BITS words at `at` into words[to…].
#define LANE_WORDS(name, slot) \
    layout(set = 0, binding = slot) readonly buffer name##_Block1 { uint data[]; } name##_1; \
    layout(set = 0, binding = slot) readonly buffer name##_Block2 { uvec2 data[]; } name##_2; \
    layout(set = 0, binding = slot) readonly buffer name##_Block4 { uvec4 data[]; } name##_4; \
    void name##_fetch(uint at, uint to) { \
        [[unroll]] for (uint k = 0; k < BITS; k += 4) { \
            if (BITS % 4 == 0) { \
                uvec4 v = name##_4.data[(at + k) >> 2]; \
                words[to + k] = v.x; \
                words[to + k + 1] = v.y; \
                words[to + k + 2] = v.z; \
                words[to + k + 3] = v.w; \
            } \
        } \
        [[unroll]] for (uint k = 0; k < BITS; k += 2) { \
            if (BITS % 4 == 2) { \
                uvec2 v = name##_2.data[(at + k) >> 1]; \
                words[to + k] = v.x; \
                words[to + k + 1] = v.y; \
            } \
        } \
        [[unroll]] for (uint k = 0; k < BITS; k++) { \
            if (BITS % 2 == 1) { \
                words[to + k] = name##_1.data[at + k]; \
            } \
        } \
    }

#endif
