#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

namespace {

// The axes of a padded array, with neighbouring axes joined where that makes no difference to the kernel.
struct PadAxes {
    uint32_t rank = 0;
    std::array<int64_t, KPX_MAX_RANK> shape{}, low{}, x_shape{}, x_strides{};

    PadAxes(const Array &x, const Array &out, const uint32_t *low, bool edge);
};

PadAxes::PadAxes(const Array &x, const Array &out, const uint32_t *lows, bool edge) {
    // An unpadded axis can be joined to the one before it: with constant padding, that is padded by whole rows of the
    // joined axis, wherever they lie. With edges it must be unpadded as well. The nearest element of a place in such a
    // row is the one in the same place of the first or last row of x, and not that row's first or last element, which
    // would be the nearest along the joined axis.
    bool before = true; // whether the last axis is unpadded
    for (uint32_t d = 0; d < x.rank; d++) {
        int64_t n = x.shape[d];
        bool whole = n == out.shape[d];
        if (whole && n == 1)
            continue;
        if (rank > 0 && whole && (before || !edge) && x_strides[rank - 1] == x.strides[d] * n) {
            shape[rank - 1] *= n;
            low[rank - 1] *= n;
            x_shape[rank - 1] *= n;
            x_strides[rank - 1] = x.strides[d];
            continue;
        }
        before = whole;
        shape[rank] = out.shape[d];
        low[rank] = lows[d];
        x_shape[rank] = n;
        x_strides[rank++] = x.strides[d];
    }
}

} // namespace

// x and out have one rank; out is contiguous.
static void pad_array(Lowering &lowering, Array x, const Array &out, const PadOp &op) {
    PadAxes axes(x, out, op.low, op.edge != 0);
    if (axes.rank > PAD_DIMS) { // first the outer axes, with the others treated as one, and later those
        constexpr uint32_t outer = 4;
        x = contiguous(lowering, x);
        Array shape = x;
        std::copy(out.shape.begin(), out.shape.begin() + outer, shape.shape.begin());
        PadOp first = op, second = op;
        std::fill(first.low + outer, first.low + KPX_MAX_RANK, 0u);
        std::fill(second.low, second.low + outer, 0u);
        Array middle = scratch_like(lowering, shape, x.dtype);
        pad_array(lowering, x, middle, first);
        pad_array(lowering, middle, out, second);
        return;
    }
    PadParams params{};
    params.n = uint32_t(out.size());
    fill(params.shape, PAD_DIMS, axes.shape, axes.rank, 1);
    fill(params.low, PAD_DIMS, axes.low, axes.rank, 0);
    fill(params.x_shape, PAD_DIMS, axes.x_shape, axes.rank, 1);
    fill(params.x_strides, PAD_DIMS, axes.x_strides, axes.rank, 0);
    params.x_offset = uint32_t(x.offset);
    params.out_offset = uint32_t(out.offset);
    params.bits = op.bits;
    const uint32_t batch = batch_of(lowering.device(), params.n);
    lowering.dispatch(spec::pad{.threads = element_threads(lowering.device()),
                                .x_dtype = x.dtype,
                                .y_dtype = out.dtype,
                                .rank = std::max(axes.rank, 1u),
                                .edge = op.edge,
                                .batch = batch},
                      {.x = {x, KPX_READ}, .y = {out, KPX_WRITE}}, params,
                      grid_elements(lowering.device(), params.n, batch));
}

// Whether x fits in out at low, and has elements along every axis whose edge must be repeated.
static bool pad_fits(const Array &x, const Array &out, const PadOp &op) {
    bool ok = x.rank == out.rank && x.dtype == out.dtype && op.edge <= 1;
    for (uint32_t d = 0; ok && d < x.rank; d++)
        ok = x.shape[d] + int64_t(op.low[d]) <= out.shape[d] && (!op.edge || x.shape[d] > 0);
    return ok;
}

void lower_pad(Lowering &lowering, const PadCall &call) {
    const Array &x = call.x(), &out = call.out();
    const PadOp &op = call.op();
    if (out.size() > 0 && !pad_fits(x, out, op))
        invalid("operands do not match in shape or dtype");
    check_operands({&x, &out});
    if (out.size() == 0)
        return;
    if (x.size() == 0) {
        fill_array(lowering, out, op.bits);
        return;
    }
    Array dense = dense_output(lowering, out);
    pad_array(lowering, x, dense, op);
    store_output(lowering, dense, out);
}

} // namespace kpx
