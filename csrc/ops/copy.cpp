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

uint32_t join_elements(Axes &axes, uint32_t bytes) {
    for (; bytes < 4 && can_widen(axes); bytes *= 2)
        widen(axes);
    return bytes == 4 ? DT_UINT32 : bytes == 2 ? DT_FLOAT16 : DT_UINT8;
}

// Where the source runs along another axis than the destination, which runs
// along the last one, moves that axis to the last but one. False where the
// copy is no such transposition, or too small to be worth its tiles.
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
    uint32_t dtype = join_elements(axes, from.element_size());
    bool tiled = transpose_axes(axes);
    Walk2 walk(axes);
    Grid grid = grid_elements(lowering.device(), walk.params.n);
    if (tiled) {
        int64_t rows = axes.shape[axes.rank - 2], cols = axes.shape[axes.rank - 1];
        grid = grid_1d(lowering.device(), axes.size() / (rows * cols) * ((rows + 31) / 32) * ((cols + 31) / 32));
    }
    lowering.dispatch(tiled ? spec::copy_transposed::kKernel : spec::copy::kKernel,
                      spec::copy{.threads = ELEMENT_THREADS, .x_dtype = dtype, .y_dtype = dtype, .rank = walk.rank},
                      {{from, KPX_READ}, {to, KPX_WRITE}}, walk.params, grid);
}

void lower_copy(Lowering &lowering, const CopyCall &call) {
    const Array &x = call.x(), &out = call.out();
    if (x.dtype != out.dtype || !same_shape(x, out))
        invalid("operands differ in shape or dtype");
    check_operands(lowering, {&x, &out});
    copy_array(lowering, x, out);
}

} // namespace kpx
