// Batches of matrix products over up to three axes of any strides.
#ifndef BATCH_GLSL
#define BATCH_GLSL

#include "types.h"

// The index of a batch along each axis.
uvec3 batch_place(MatMulParams p, uint batch) {
    uint q = batch / p.shape[2];
    uint c0 = q / p.shape[1];
    return uvec3(c0, q - c0 * p.shape[1], batch - q * p.shape[2]);
}

uint batch_offset(uvec3 place, uint strides[3]) {
    return place.x * strides[0] + place.y * strides[1] + place.z * strides[2];
}

// Offsets of a's and b's matrix of a batch.
uvec2 batch_start(MatMulParams p, uint batch) {
    uvec3 place = batch_place(p, batch);
    return uvec2(p.a_offset + batch_offset(place, p.a_batch), p.b_offset + batch_offset(place, p.b_batch));
}

#endif
