// out = condition ? a : b, bit by bit.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, c, 1)
TENSOR_IN(1, a, 2)
TENSOR_IN(2, b, 3)
TENSOR_OUT(3, y, 4)
layout(constant_id = 5) const uint RANK = 1;
layout(constant_id = 6) const uint QUADS = 0; // if set, the walk counts quads
layout(constant_id = 7) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk4Params p; };

#define WALK_ARRAYS 4
#define WALK_BATCH BATCH
#include "walk.glsl"
WALK_IN(0, c, 0u)
WALK_IN(1, a, 1u)
WALK_IN(2, b, 2u)
WALK_OUT(3, y)

uint chosen(uint c, uint a, uint b) { return c != 0u ? a : b; }

WALK_3(y, chosen, c, a, b)
