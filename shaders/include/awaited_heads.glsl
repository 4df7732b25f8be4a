// The heads of a new token, q, k and v at bindings 0 to 2, for attention that may
// begin before they are there (overlap.glsl): q_load, k_load and v_load, which then
// give whatever is there, of float32.
//
// Before the include: OVERLAP, and q_DT, k_DT and v_DT.
#ifndef AWAITED_HEADS_GLSL
#define AWAITED_HEADS_GLSL

#include "overlap.glsl"

const uint AWAITED_HEADS = OVERLAP & 7u; // not 0: some of them may not be there

#define AWAITED_HEAD(slot, name) \
    TENSOR_BLOCKS(slot, name, readonly) \
    TENSOR_BITS(name) \
    layout(set = 0, binding = slot) volatile coherent readonly buffer name##_Bits1 { uint data[]; } name##_awaited; \
    float name##_load(uint i) { \
        return OVERLAPS(slot) ? uintBitsToFloat(name##_awaited.data[i]) : bits_to_float(name##_bits(i), name##_DT); \
    }

AWAITED_HEAD(0, q)
AWAITED_HEAD(1, k)
AWAITED_HEAD(2, v)

// Whether that element, just loaded, is not there. kind: 0 of q, 1 of k, 2 of v.
bool is_missing(uint kind, float v) { return (OVERLAP & (1u << kind)) != 0 && is_missing(floatBitsToUint(v)); }

#endif
