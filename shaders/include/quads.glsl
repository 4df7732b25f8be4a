// Four neighbouring elements of an input at once.
//
//   TENSOR_IN(1, k, 2)
//   QUADS_IN(1, k)
//   ... vec4 v = k_quad(at); // at is a multiple of 4; floats only
//
// QUADS_INOUT is for tensors that are written, too.
// QUAD_BITS_IN(1, k) gives uvec4 k_quad_bits(at), of any element type.
// QUAD_BITS_OUT(2, y) gives y_set_quad_bits(at, bits).
#ifndef QUADS_GLSL
#define QUADS_GLSL

#include "tensor.glsl"

vec4 quad_of(uint dtype, uvec2 v) {
    return vec4(bits_to_float(v.x & 0xffffu, dtype), bits_to_float(v.x >> 16, dtype),
                bits_to_float(v.y & 0xffffu, dtype), bits_to_float(v.y >> 16, dtype));
}

// Each takes two lines: cmake/kernel_bindings.cmake parses macros in this form.
#define QUADS_IN(slot, name) \
    QUADS_OF(slot, name, readonly)
#define QUADS_INOUT(slot, name) \
    QUADS_OF(slot, name, )

#define QUADS_OF(slot, name, qualifier) \
    layout(set = 0, binding = slot) qualifier buffer name##_Quads32 { uvec4 data[]; } name##_q32; \
    layout(set = 0, binding = slot) qualifier buffer name##_Quads16 { uvec2 data[]; } name##_q16; \
    vec4 name##_quad(uint at) { \
        return name##_DT == DT_FLOAT32 ? uintBitsToFloat(name##_q32.data[at >> 2]) \
                                       : quad_of(name##_DT, name##_q16.data[at >> 2]); \
    }

uvec4 quad_bits_16(uvec2 v) { return uvec4(v.x & 0xffffu, v.x >> 16, v.y & 0xffffu, v.y >> 16); }
uvec4 quad_bits_8(uint v) { return uvec4(v & 0xffu, (v >> 8) & 0xffu, (v >> 16) & 0xffu, v >> 24); }
uvec2 pack_16(uvec4 v) { return uvec2((v.x & 0xffffu) | (v.y << 16), (v.z & 0xffffu) | (v.w << 16)); }
uint pack_8(uvec4 v) {
    v &= 0xffu;
    return v.x | (v.y << 8) | (v.z << 16) | (v.w << 24);
}

#define QUAD_BITS_BLOCKS(slot, name, qualifier) \
    layout(set = 0, binding = slot) qualifier buffer name##_Bits32 { uvec4 data[]; } name##_b32; \
    layout(set = 0, binding = slot) qualifier buffer name##_Bits16 { uvec2 data[]; } name##_b16; \
    layout(set = 0, binding = slot) qualifier buffer name##_Bits8 { uint data[]; } name##_b8;

#define QUAD_BITS_IN(slot, name) \
    QUAD_BITS_BLOCKS(slot, name, readonly) \
    QUAD_BITS_LOADS(name)

#define QUAD_BITS_LOADS(name) \
    uvec4 name##_quad_bits(uint at) { \
        switch (name##_DT) { \
        case DT_FLOAT16: case DT_BFLOAT16: return quad_bits_16(name##_b16.data[at >> 2]); \
        case DT_BOOL: case DT_UINT8: return quad_bits_8(name##_b8.data[at >> 2]); \
        default: return name##_b32.data[at >> 2]; \
        } \
    }

#define QUAD_BITS_INOUT(slot, name) \
    QUAD_BITS_BLOCKS(slot, name, ) \
    QUAD_BITS_LOADS(name) \
    QUAD_BITS_STORES(name)

#define QUAD_BITS_OUT(slot, name) \
    QUAD_BITS_BLOCKS(slot, name, ) \
    QUAD_BITS_STORES(name)

#define QUAD_BITS_STORES(name) \
    void name##_set_quad_bits(uint at, uvec4 v) { \
        switch (name##_DT) { \
        case DT_FLOAT16: case DT_BFLOAT16: name##_b16.data[at >> 2] = pack_16(v); break; \
        case DT_BOOL: case DT_UINT8: name##_b8.data[at >> 2] = pack_8(v); break; \
        default: name##_b32.data[at >> 2] = v; \
        } \
    }

#endif
