// Changes logits of tokens that are in the prompt or the answer, one thread per logit.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) buffer Logits { float logits[]; };
layout(set = 0, binding = 1) readonly buffer Counts { uint counts[]; };
layout(set = 0, binding = 2) readonly buffer Penalties { float penalties[]; };
layout(set = 0, binding = 3) readonly buffer Rows { int rows[]; };
layout(push_constant) uniform Push { PenalizeParams p; };

float penalty(uint row, uint which) {
    return penalties[p.penalties_offset + row * p.penalties_row + which * p.penalties_col];
}

void main() {
    // A few rounds (csrc/ops/rounds.hpp): grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = i / p.cols;
        uint col = i - row * p.cols;
        uint from = uint(rows[p.rows_offset + row * p.rows_stride]); // negative ones are beyond all rows
        if (from >= p.counts_rows) {
            continue;
        }
        uint count = counts[p.counts_offset + from * p.counts_row + col * p.counts_col];
        if (count == 0u) {
            continue;
        }
        uint at = p.logits_offset + row * p.logits_row + col * p.logits_col;
        // Each operation rounds by itself, as on the CPU.
        precise float v = logits[at];
        v = v * penalty(from, v > 0.0 ? PENALTY_POSITIVE : PENALTY_OTHER);
        uint answers = count & ~(1u << IN_PROMPT_BIT);
        if (answers != 0u) {
            precise float times = penalty(from, PENALTY_FREQUENCY) * float(answers);
            precise float less = penalty(from, PENALTY_PRESENCE) + times;
            v = v - less;
        }
        logits[at] = v;
    }
}
