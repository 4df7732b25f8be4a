// Four neighbouring elements of an input at once, as floats.
//
//   TENSOR_IN(1, k, 2)
//   QUADS_IN(1, k)
//   ... vec4 v = k_quad(at); // at is a multiple of 4
#ifndef QUADS_GLSL
#define QUADS_GLSL

#include "tensor.glsl"

vec4 quad_of(uint dtype, uvec2 v) {
    return vec4(bits_to_float(v.x & 0xffffu, dtype), bits_to_float(v.x >> 16, dtype),
                bits_to_float(v.y & 0xffffu, dtype), bits_to_float(v.y >> 16, dtype));
}

#define QUADS_IN(slot, name) \
    layout(set = 0, binding = slot) readonly buffer name##_Quads32 { uvec4 data[]; } name##_q32; \
    layout(set = 0, binding = slot) readonly buffer name##_Quads16 { uvec2 data[]; } name##_q16; \
    vec4 name##_quad(uint at) { \
        return name##_DT == DT_FLOAT32 ? uintBitsToFloat(name##_q32.data[at >> 2]) \
                                       : quad_of(name##_DT, name##_q16.data[at >> 2]); \
    }

#endif
