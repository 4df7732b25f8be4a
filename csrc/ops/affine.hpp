// Checks that the ops over affine-quantized matrices share.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

inline uint32_t group_shift(uint32_t group) {
    return group == 32 ? 5 : group == 64 ? 6 : 7;
}

// Whether w, scales and biases are a matrix (with leading axes) of rows of cols
// elements in this quantization, or why not.
inline Support check_affine(const Array &w, const Array &scales, const Array &biases, uint32_t bits, uint32_t group,
                            int64_t cols) {
    if (bits < 2 || bits > 8 || bits == 7) {
        return unsupported("%u bits; there are 2, 3, 4, 5, 6 and 8", bits);
    }
    if (group != 32 && group != 64 && group != 128) {
        return unsupported("groups of %u; there are 32, 64 and 128", group);
    }
    if (!w || w.dtype != DT_UINT32 || !scales || !is_float(scales.dtype) || !biases || !is_float(biases.dtype)) {
        return unsupported("w must be uint32, scales and biases floats");
    }
    if (w.rank == 0 || w.rank != scales.rank || !same_shape(scales, biases)) {
        return unsupported("w, scales and biases differ in rank or shape");
    }
    for (uint32_t d = 0; d + 1 < w.rank; d++) {
        if (w.shape[d] != scales.shape[d]) {
            return unsupported("w and scales differ in shape");
        }
    }
    if (cols % group != 0 || w.dim(-1) != cols / 32 * bits || scales.dim(-1) != cols / group) {
        return unsupported("rows of %lld elements do not fit w and scales", (long long)cols);
    }
    return supported();
}

} // namespace kpx
