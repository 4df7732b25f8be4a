// Rows of x, float32 at binding 0, which may be results that are not there yet (overlap.glsl).
//
// Before the include: OVERLAP, and QUADS_IN of x.
#ifndef AWAITED_X_GLSL
#define AWAITED_X_GLSL

#include "overlap.glsl"

layout(set = 0, binding = 0) volatile coherent readonly buffer AwaitedX { uvec4 data[]; } awaited_x;

const bool AWAITS_X = OVERLAPS(0);

// Four elements, or whatever is there.
vec4 x_in(uint at) { return AWAITS_X ? uintBitsToFloat(awaited_x.data[at / 4]) : x_quad(at); }

// Whether they are not there.
bool x_is_missing(vec4 v) { return AWAITS_X && is_missing(floatBitsToUint(v)); }

#endif
