// Quads of keys or values in pages as they are loaded, for kernels that make floats of them only where they are used: the
// elements' bits, or a word of codes and the bits of its scale. They are not in quads.glsl and cache_codes.glsl, because
// NVIDIA's driver then keeps the matrices of other kernels that include those in memory.
//
//   TENSOR_IN(1, k, 2)
//   QUADS_IN(1, k)
//   QUAD_WORDS(k)
//   CACHE_WORDS(k)
//   ... uvec4 words = k_quad_words(at), others = k_cache_words(from, quad, d);
//   ... vec4 v = quad_of_words(k_DT, words);         // of floats
//   ... vec4 c = code_values(others.x) * uintBitsToFloat(others.y); // of codes
#ifndef CACHE_WORDS_GLSL
#define CACHE_WORDS_GLSL

#include "quads.glsl"
#include "cache_codes.glsl"

#define QUAD_WORDS(name) \
    uvec4 name##_quad_words(uint at) { \
        return name##_DT == DT_FLOAT32 ? name##_q32.data[at >> 2] : uvec4(name##_q16.data[at >> 2], 0, 0); \
    }

#define CACHE_WORDS(name) \
    uvec4 name##_cache_words(uint from, uint quad, uint d) { \
        if (name##_DT == DT_UINT8) { \
            uint scale = name##_32.data[(from >> 2) + (d >> 2) + quad / CACHE_QUADS]; \
            return uvec4(name##_32.data[(from >> 2) + quad], scale, 0, 0); \
        } \
        return name##_quad_words(from + quad * 4); \
    }

vec4 quad_of_words(uint dtype, uvec4 words) {
    return dtype == DT_FLOAT32 ? uintBitsToFloat(words) : quad_of(dtype, words.xy);
}

// 2^23 as a float. Since no compiler knows that, a byte of a word becomes a float's last bits in one operation.
uint TWO_23 = 0x4b000000u + (gl_NumWorkGroups.z >> 31);

// Four codes less CACHE_ZERO, exactly.
vec4 code_values(uint word) {
    uvec4 code = uvec4(word & 0xffu, (word >> 8) & 0xffu, (word >> 16) & 0xffu, word >> 24);
    return uintBitsToFloat(code | TWO_23) - (8388608.0 + float(CACHE_ZERO));
}

#endif
