// Stores four neighbouring floats, with one store if their index is a multiple of 4.
// The kernel has TENSOR_OUT and QUAD_BITS_OUT of the tensor.
#ifndef FLOAT_QUADS_GLSL
#define FLOAT_QUADS_GLSL

uvec4 floats_to_bits(vec4 v, uint dtype) {
    return uvec4(float_to_bits(v.x, dtype), float_to_bits(v.y, dtype), float_to_bits(v.z, dtype), float_to_bits(v.w, dtype));
}

#define STORE_FLOATS(tensor, at, v) \
    if (((at) & 3u) == 0u) { \
        tensor##_set_quad_bits(at, floats_to_bits(v, tensor##_DT)); \
    } else { \
        for (uint f = 0u; f < 4u; f++) { \
            tensor##_store((at) + f, (v)[f]); \
        } \
    }

#endif
