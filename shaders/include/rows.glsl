// Kernels that give each row along the last axis to one workgroup.
#ifndef ROWS_GLSL
#define ROWS_GLSL

#include "types.h"

// Offset of the row's first element.
uint row_start(RowParams r, uint row) {
    uint q = row / r.shape[2];
    uint at = r.offset + (row - q * r.shape[2]) * r.strides[2];
    row = q;
    q = row / r.shape[1];
    return at + (row - q * r.shape[1]) * r.strides[1] + q * r.strides[0];
}

#endif
