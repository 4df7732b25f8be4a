// Batches of matrix products over up to three axes of any strides.
#ifndef BATCH_GLSL
#define BATCH_GLSL

#include "types.h"

// Offsets of a's and b's matrix of a batch.
uvec2 batch_start(MatMulParams p, uint batch) {
    uint q = batch / p.shape[2];
    uint c2 = batch - q * p.shape[2];
    uint c0 = q / p.shape[1];
    uint c1 = q - c0 * p.shape[1];
    return uvec2(p.a_offset + c0 * p.a_batch[0] + c1 * p.a_batch[1] + c2 * p.a_batch[2],
                 p.b_offset + c0 * p.b_batch[0] + c1 * p.b_batch[1] + c2 * p.b_batch[2]);
}

#endif
