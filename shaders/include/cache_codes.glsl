// Heads in pages, whose elements are floats or, with DT_UINT8, codes: D of them (a multiple of 4), then a float32 scale
// for each CACHE_GROUP. These are read and written as words, so they need no narrow storage.
//
//   TENSOR_IN(1, k, 2)
//   QUADS_IN(1, k)
//   CACHE_LOADS(k)
//   ... vec4 v = k_cache_quad(from, quad, d);          // elements 4 * quad to 4 * quad + 3 of the head that begins there
//   CACHE_ELEMENT_LOADS(k)
//   ... float f = k_cache_load(from, e, stride, d);    // element e
//
//   TENSOR_OUT(8, keys, 2)
//   CACHE_STORES(keys)
//   ... vec2 g = cache_group(most); // of a group, with the largest of its magnitudes
//   ... uint word = cache_codes(v, g);
//   ... keys_cache_store(from, quad, d, word, g); // and, of the first quad of a group, its scale
#ifndef CACHE_CODES_GLSL
#define CACHE_CODES_GLSL

#include "tensor.glsl"
#include "divide.glsl"

const uint CACHE_QUADS = CACHE_GROUP / 4; // of a group

// Bytes as floats: in the last bits of 2^23.
vec4 cache_values(uint word, float scale) {
    uvec4 code = uvec4(word & 0xffu, (word >> 8) & 0xffu, (word >> 16) & 0xffu, word >> 24);
    precise vec4 r = (uintBitsToFloat(code | 0x4b000000u) - (8388608.0 + float(CACHE_ZERO))) * scale;
    return r;
}

#define CACHE_LOADS(name) \
    vec4 name##_cache_quad(uint from, uint quad, uint d) { \
        if (name##_DT == DT_UINT8) { \
            uint scale = name##_32.data[(from >> 2) + (d >> 2) + quad / CACHE_QUADS]; \
            return cache_values(name##_32.data[(from >> 2) + quad], uintBitsToFloat(scale)); \
        } \
        return name##_quad(from + quad * 4); \
    }

#define CACHE_ELEMENT_LOADS(name) \
    float name##_cache_load(uint from, uint e, uint stride, uint d) { \
        if (name##_DT == DT_UINT8) { \
            return name##_cache_quad(from, e >> 2, d)[e & 3u]; \
        } \
        return name##_load(from + e * stride); \
    }

uint magnitude_of(vec4 v) {
    uvec4 a = floatBitsToUint(v) & 0x7fffffffu;
    return max(max(a.x, a.y), max(a.z, a.w));
}

// The scale of a group, and the factor that makes codes of its elements. most is the bits of the largest magnitude.
// Below 2^-100 all are zeros; with an infinity or NaN all are NaN. Divisions are exact, so that all devices agree.
vec2 cache_group(uint most) {
    if (most >= BITS_INF) {
        return vec2(uintBitsToFloat(BITS_NAN), 0.0);
    }
    if (most < 0x0d800000u) {
        return vec2(0.0);
    }
    uint limit = floatBitsToUint(127.0);
    return vec2(uintBitsToFloat(divide_bits(most, limit)), uintBitsToFloat(divide_bits(limit, most)));
}

uint cache_codes(vec4 v, vec2 group) {
    bvec4 special = greaterThanEqual(floatBitsToUint(v) & 0x7fffffffu, uvec4(BITS_INF));
    precise vec4 scaled = mix(v, vec4(0.0), special) * group.y;
    uvec4 code = uvec4(ivec4(roundEven(scaled)) + int(CACHE_ZERO));
    return code.x | (code.y << 8) | (code.z << 16) | (code.w << 24);
}

#define CACHE_STORES(name) \
    void name##_cache_store(uint from, uint quad, uint d, uint word, vec2 group) { \
        name##_32.data[(from >> 2) + quad] = word; \
        if (quad % CACHE_QUADS == 0) { \
            name##_32.data[(from >> 2) + (d >> 2) + quad / CACHE_QUADS] = floatBitsToUint(group.x); \
        } \
    }

#endif
