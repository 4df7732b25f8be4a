// Tensor bindings whose element type is a specialization constant: one SPIR-V
// module serves every dtype, and the driver drops the branches not taken.
//
//   layout(local_size_x_id = 0) in;
//   TENSOR_IN(0, x, 1)     // binding 0, spec constant 1 is its DT_*
//   TENSOR_OUT(1, y, 2)
//   ... y_store(i, 2.0 * x_load(j));
//
// Built twice: with NARROW, 8- and 16-bit elements are real types; without it, for
// devices that have no such storage, they are parts of words. Threads that write
// neighbouring elements share a word, so its parts are written by atomic
// operations.
#ifndef TENSOR_GLSL
#define TENSOR_GLSL

#extension GL_GOOGLE_include_directive : require
#ifdef NARROW
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#endif

#include "types.h"
#include "convert.glsl"

#define TENSOR_32(slot, name, qualifier) \
    layout(set = 0, binding = slot) qualifier buffer name##_Block32 { uint data[]; } name##_32;

#ifdef NARROW

#define TENSOR_BLOCKS(slot, name, qualifier) \
    TENSOR_32(slot, name, qualifier) \
    layout(set = 0, binding = slot) qualifier buffer name##_Block16 { uint16_t data[]; } name##_16; \
    layout(set = 0, binding = slot) qualifier buffer name##_Block8 { uint8_t data[]; } name##_8;

#define TENSOR_BITS(name) \
    uint name##_bits(uint i) { \
        switch (name##_DT) { \
        case DT_FLOAT16: case DT_BFLOAT16: return uint(name##_16.data[i]); \
        case DT_BOOL: case DT_UINT8: return uint(name##_8.data[i]); \
        default: return name##_32.data[i]; \
        } \
    }

#define TENSOR_LOOSE_BITS(slot, name) \
    layout(set = 0, binding = slot) readonly buffer name##_BlockSigned { int16_t data[]; } name##_signed; \
    uint name##_loose_bits(uint i) { \
        return name##_DT == DT_FLOAT16 || name##_DT == DT_BFLOAT16 ? uint(int(name##_signed.data[i])) : name##_bits(i); \
    }

#define TENSOR_SET_BITS(name) \
    void name##_set_bits(uint i, uint v) { \
        switch (name##_DT) { \
        case DT_FLOAT16: case DT_BFLOAT16: name##_16.data[i] = uint16_t(v); break; \
        case DT_BOOL: case DT_UINT8: name##_8.data[i] = uint8_t(v); break; \
        default: name##_32.data[i] = v; \
        } \
    }

#else

#define TENSOR_BLOCKS(slot, name, qualifier) TENSOR_32(slot, name, qualifier)

#define TENSOR_BITS(name) \
    uint name##_bits(uint i) { \
        switch (name##_DT) { \
        case DT_FLOAT16: case DT_BFLOAT16: return bitfieldExtract(name##_32.data[i >> 1], int(i & 1u) * 16, 16); \
        case DT_BOOL: case DT_UINT8: return bitfieldExtract(name##_32.data[i >> 2], int(i & 3u) * 8, 8); \
        default: return name##_32.data[i]; \
        } \
    }

#define TENSOR_SET_BITS(name) \
    void name##_set_part(uint word, uint shift, uint mask, uint v) { \
        atomicAnd(name##_32.data[word], ~(mask << shift)); \
        atomicOr(name##_32.data[word], (v & mask) << shift); \
    } \
    void name##_set_bits(uint i, uint v) { \
        switch (name##_DT) { \
        case DT_FLOAT16: case DT_BFLOAT16: name##_set_part(i >> 1, (i & 1u) * 16u, 0xffffu, v); break; \
        case DT_BOOL: case DT_UINT8: name##_set_part(i >> 2, (i & 3u) * 8u, 0xffu, v); break; \
        default: name##_32.data[i] = v; \
        } \
    }

#define TENSOR_LOOSE_BITS(slot, name) \
    uint name##_loose_bits(uint i) { return name##_bits(i); }

#endif

// TENSOR_LOOSE_BITS comes after TENSOR_BITS. x_loose_bits(i) has other bits above those of a 16-bit element, which
// bits_to_float ignores. It is for loads that other work hides: NVIDIA's driver loads with a sign and masks it away
// right after the load, which waits for memory.

// x_bits(i): the raw bits; x_load(i): the value as float.
#define TENSOR_LOADS(name) \
    TENSOR_BITS(name) \
    float name##_load(uint i) { return bits_to_float(name##_bits(i), name##_DT); }

#define TENSOR_STORES(name) \
    TENSOR_SET_BITS(name) \
    void name##_store(uint i, float v) { name##_set_bits(i, float_to_bits(v, name##_DT)); }

#define TENSOR_IN(slot, name, spec) \
    layout(constant_id = spec) const uint name##_DT = DT_FLOAT32; \
    TENSOR_BLOCKS(slot, name, readonly) \
    TENSOR_LOADS(name)

#define TENSOR_OUT(slot, name, spec) \
    layout(constant_id = spec) const uint name##_DT = DT_FLOAT32; \
    TENSOR_BLOCKS(slot, name, ) \
    TENSOR_STORES(name)

#define TENSOR_INOUT(slot, name, spec) \
    layout(constant_id = spec) const uint name##_DT = DT_FLOAT32; \
    TENSOR_BLOCKS(slot, name, ) \
    TENSOR_LOADS(name) \
    TENSOR_STORES(name)

// Linear workgroup number of a grid that kpx::grid_1d folded into x and y.
uint workgroup_index() { return gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x; }

#endif
