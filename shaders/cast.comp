// out = in converted to another type, for any layouts, by the rules of convert_bits.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "quads.glsl"

layout(local_size_x_id = 0) in;
TENSOR_IN(0, x, 1)
TENSOR_OUT(1, y, 2)
layout(constant_id = 3) const uint RANK = 1;
layout(constant_id = 4) const uint QUADS = 0; // if set, the walk counts quads
layout(constant_id = 5) const uint BATCH = 1;
layout(push_constant) uniform Push { Walk2Params p; };

#define WALK_ARRAYS 2
#define WALK_BATCH BATCH
#include "walk.glsl"
WALK_IN(0, x, 0u)
WALK_OUT(1, y)

uint converted(uint bits) { return convert_bits(bits, x_DT, y_DT); }

WALK_1(y, converted, x)
