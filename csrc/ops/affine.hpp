// Checks that the ops over affine-quantized matrices share.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

inline uint32_t group_shift(uint32_t group) {
    return group == 16 ? 4 : group == 32 ? 5 : group == 64 ? 6 : 7;
}

// Throws unless the mode exists with these bits and this group size.
inline void check_mode(uint32_t mode, uint32_t bits, uint32_t group) {
    if (mode > QUANTIZATION_MXFP8) {
        invalid("quantization mode {}", mode);
    }
    if (mode != QUANTIZATION_AFFINE) {
        const bool fits =
            bits == (mode == QUANTIZATION_MXFP8 ? 8u : 4u) && group == (mode == QUANTIZATION_NVFP4 ? 16u : 32u);
        if (!fits) {
            invalid("mode {} with groups of {} and {} bits", mode, group, bits);
        }
        return;
    }
    if (bits < 2 || bits > 8 || bits == 7) {
        invalid("{} bits; there are 2, 3, 4, 5, 6 and 8", bits);
    }
    if (group != 32 && group != 64 && group != 128) {
        invalid("groups of {}; there are 32, 64 and 128", group);
    }
}

// Throws unless w, scales and biases are matrices (with leading axes) of rows
// of cols elements in this quantization, and kernels can count a row's bits.
inline void check_affine(const Array &w, const Array &scales, const Array &biases, uint32_t mode, uint32_t bits,
                         uint32_t group, int64_t cols) {
    check_mode(mode, bits, group);
    if (!w || w.dtype != DT_UINT32 || !scales) {
        invalid("w must be uint32, and scales must be given");
    }
    if (mode == QUANTIZATION_AFFINE && (!is_float(scales.dtype) || !biases || !is_float(biases.dtype))) {
        invalid("scales and biases must be floats");
    }
    if (mode != QUANTIZATION_AFFINE && (scales.dtype != DT_UINT8 || biases)) {
        invalid("scales must be uint8, and there are no biases");
    }
    if (w.rank == 0 || w.rank != scales.rank || (biases && !same_shape(scales, biases))) {
        invalid("w, scales and biases differ in rank or shape");
    }
    if (!same_leading(w, scales, w.rank - 1)) {
        invalid("w and scales differ in shape");
    }
    if (cols % group != 0 || w.dim(-1) != cols / 16 * bits / 2 || scales.dim(-1) != cols / group) {
        invalid("rows of {} elements do not fit w and scales", cols);
    }
    if (cols * int64_t(bits) > int64_t(UINT32_MAX)) {
        unsupported("rows of {} codes of {} bits", cols, bits);
    }
}

// What a kernel binds for the biases; without biases it binds a placeholder, which it does not read.
inline const Array &bound_biases(const Array &scales, const Array &biases) {
    return biases ? biases : scales;
}

} // namespace kpx
