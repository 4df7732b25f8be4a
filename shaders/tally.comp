// Adds amounts to counts, one thread per amount. Sums of integers do not depend on the order of the threads.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "types.h"

layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) buffer Counts { uint counts[]; };
layout(set = 0, binding = 1) readonly buffer Rows { int rows[]; };
layout(set = 0, binding = 2) readonly buffer Tokens { uint tokens[]; };
layout(set = 0, binding = 3) readonly buffer Amounts { uint amounts[]; };
layout(push_constant) uniform Push { TallyParams p; };

void main() {
    // A few rounds (csrc/ops/rounds.hpp): grid_elements launches enough threads.
    for (uint i = gl_GlobalInvocationID.x; i < p.n; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint row = uint(rows[p.rows_offset + i * p.rows_stride]); // negative ones are beyond all rows
        uint token = tokens[p.tokens_offset + i * p.tokens_stride];
        uint amount = amounts[p.amounts_offset + i * p.amounts_stride];
        if (row < p.counts_rows && token < p.cols && amount != 0u) {
            atomicAdd(counts[p.counts_offset + row * p.counts_row + token * p.counts_col], amount);
        }
    }
}
