// Sets logits of tokens that are not allowed to -Inf, one thread per logit. The others are neither read nor written.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) writeonly buffer Logits { uint logits[]; }; // floats, as bits
layout(set = 0, binding = 1) readonly buffer Allowed { uint allowed[]; };
layout(push_constant) uniform Push { MaskParams p; };

void main() {
    // A few rounds (csrc/ops/rounds.hpp): grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / p.cols;
        uint col = i - row * p.cols;
        uint word = allowed[p.allowed_offset + row * p.allowed_row + (col >> 5) * p.allowed_col];
        if ((word >> (col & 31u) & 1u) == 0u) {
            logits[p.logits_offset + row * p.logits_row + col * p.logits_col] = 0xff800000u;
        }
    }
}
