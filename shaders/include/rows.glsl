// Kernels that give each row along the last axis to one workgroup. Its threads
// take the row in blocks of ITEMS columns each, whose loads are in flight
// together; a row of one block stays in registers between two passes.
//
//   layout(constant_id = 3) const uint ITEMS = 4; // at most MAX_ITEMS
//   #define ROW_ITEMS ITEMS
//   #include "rows.glsl"
#ifndef ROWS_GLSL
#define ROWS_GLSL

#include "types.h"

layout(local_size_x_id = 0) in; // before any use of gl_WorkGroupSize

#define MAX_ITEMS 8

// Offset of the row's first element.
uint row_start(RowParams r, uint row) {
    uint q = row / r.shape[2];
    uint at = r.offset + (row - q * r.shape[2]) * r.strides[2];
    row = q;
    q = row / r.shape[1];
    return at + (row - q * r.shape[1]) * r.strides[1] + q * r.strides[0];
}

#ifdef ROW_ITEMS

// The first columns of the blocks: for (uint first = 0u; first < cols; first += row_block()).
uint row_block() { return gl_WorkGroupSize.x * ROW_ITEMS; }

// The column of this thread's item k in a block.
uint row_column(uint first, uint k) { return first + k * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }

#endif
#endif
