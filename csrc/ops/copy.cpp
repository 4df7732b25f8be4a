#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

// Whether a kernel may move two neighbouring elements as one twice as wide.
static bool can_widen(const Axes &axes) {
    if (axes.rank == 0 || axes.shape[axes.rank - 1] % 2 != 0)
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        if (axes.strides[k][axes.rank - 1] != 1 || axes.offset[k] % 2 != 0)
            return false;
        for (uint32_t d = 0; d + 1 < axes.rank; d++) {
            if (axes.strides[k][d] % 2 != 0)
                return false;
        }
    }
    return true;
}

static void widen(Axes &axes) {
    axes.shape[axes.rank - 1] /= 2;
    for (uint32_t k = 0; k < 2; k++) {
        axes.offset[k] /= 2;
        for (uint32_t d = 0; d + 1 < axes.rank; d++)
            axes.strides[k][d] /= 2;
    }
}

Units join_elements(Axes &axes, uint32_t bytes) {
    for (; bytes < 4 && can_widen(axes); bytes *= 2)
        widen(axes);
    if (bytes < 4)
        return {bytes == 2 ? uint32_t(DT_FLOAT16) : uint32_t(DT_UINT8), 0};
    return {DT_UINT32, make_quads(axes, 2)};
}

// If the source is contiguous along another axis than the destination, which is
// contiguous along the last one, moves that axis to the last but one. False if
// the copy is not such a transposition, or too small for tiles to pay.
static bool transpose_axes(Axes &axes) {
    constexpr int64_t least = 16;
    uint32_t last = axes.rank - 1;
    if (axes.rank < 2 || axes.strides[1][last] != 1 || axes.strides[0][last] == 1 || axes.shape[last] < least)
        return false;
    for (uint32_t d = 0; d < last; d++) {
        if (axes.strides[0][d] != 1 || axes.shape[d] < least)
            continue;
        std::rotate(axes.shape.begin() + d, axes.shape.begin() + d + 1, axes.shape.begin() + last);
        for (uint32_t k = 0; k < 2; k++)
            std::rotate(axes.strides[k].begin() + d, axes.strides[k].begin() + d + 1, axes.strides[k].begin() + last);
        return true;
    }
    return false;
}

void copy_array(Lowering &lowering, const Array &from, const Array &to) {
    Axes axes = collapse({&from, &to});
    if (axes.size() == 0)
        return;
    const DeviceTraits &device = lowering.device();
    const Units units = join_elements(axes, from.element_size());
    const bool tiled = units.quads == 0 && transpose_axes(axes);
    const Walk2 walk(axes);
    if (tiled) {
        const int64_t rows = axes.shape[axes.rank - 2], cols = axes.shape[axes.rank - 1];
        lowering.dispatch(spec::copy_transposed{.threads = element_threads(lowering.device()),
                                                .x_dtype = units.dtype,
                                                .y_dtype = units.dtype,
                                                .rank = walk.rank},
                          {.x = {from, KPX_READ}, .y = {to, KPX_WRITE}}, walk.params,
                          grid_1d(device, axes.size() / (rows * cols) * ((rows + 31) / 32) * ((cols + 31) / 32)));
        return;
    }
    const uint32_t batch = batch_of(device, walk.params.n);
    lowering.dispatch(spec::copy{.threads = element_threads(lowering.device()),
                                 .x_dtype = units.dtype,
                                 .y_dtype = units.dtype,
                                 .rank = walk.rank,
                                 .quads = units.quads,
                                 .batch = batch},
                      {.x = {from, KPX_READ}, .y = {to, KPX_WRITE}}, walk.params,
                      grid_elements(device, walk.params.n, batch));
}

void lower_copy(Lowering &lowering, const CopyCall &call) {
    const Array &x = call.x(), &out = call.out();
    if (x.dtype != out.dtype || !same_shape(x, out))
        invalid("operands differ in shape or dtype");
    check_operands({&x, &out});
    copy_array(lowering, x, out);
}

} // namespace kpx
