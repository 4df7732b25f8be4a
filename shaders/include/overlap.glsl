// For kernels that may begin before the dispatches that they depend on have ended
// (csrc/graph/overlap.hpp): instead of waiting at a barrier, they ask memory for
// results that are not there yet, which OVERLAP_MISSING stands for, until they are.
//
// Before the include: OVERLAP, a specialization constant. Bit i of it says that
// binding i is such a result of another dispatch, or one that this dispatch makes
// for another.
#ifndef OVERLAP_GLSL
#define OVERLAP_GLSL

#define OVERLAPS(binding) ((OVERLAP & (1u << (binding))) != 0)

bool is_missing(uint v) { return v == OVERLAP_MISSING; }
bool is_missing(uvec4 v) { return any(equal(v, uvec4(OVERLAP_MISSING))); }

// A float32 as the result of that binding stores it. OVERLAP_MISSING is one of many NaNs: another one replaces it.
float as_given(uint binding, float v) {
    return OVERLAPS(binding) && is_missing(floatBitsToUint(v)) ? uintBitsToFloat(OVERLAP_NAN) : v;
}

#endif
