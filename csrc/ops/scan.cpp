#include "ops/lowering_util.hpp"
#include "ops/rounds.hpp"

#include <algorithm>
#include <bit>

namespace kpx {

// x with the axis moved to the end.
static Array axis_last(const Array &x, uint32_t axis) {
    Array moved = x;
    std::rotate(moved.shape.begin() + axis, moved.shape.begin() + axis + 1, moved.shape.begin() + x.rank);
    std::rotate(moved.strides.begin() + axis, moved.strides.begin() + axis + 1, moved.strides.begin() + x.rank);
    return moved;
}

// The rounds of the loops over a row's blocks, in each of which all subgroups' totals are joined, or those of threads
// in a tree.
static int64_t scan_rounds(const Lowering &lowering, int64_t items, uint32_t threads) {
    const DeviceTraits &device = lowering.device();
    const bool subgroups = lowering.runs_variant(spec::scan::kKernel, "subgroup");
    const int64_t totals = subgroups ? threads / device.subgroup_size : std::bit_width(threads) - 1;
    return (items + threads - 1) / threads * (2 + totals);
}

void lower_scan(Lowering &lowering, const ScanCall &call) {
    const ScanOp &op = call.op();
    if (op.kind > SCAN_PROD || op.exclusive > 1 || op.reverse > 1)
        invalid("kind {}, exclusive {}, reverse {}", op.kind, op.exclusive, op.reverse);
    if (op.axis >= call.x().rank || !same_shape(call.x(), call.out()))
        invalid("axis {} of rank {}, or x and out differ in shape", op.axis, call.x().rank);
    if (call.x().dtype != call.out().dtype || call.x().dtype == DT_BOOL)
        invalid("dtypes {} to {}", dtype_name(call.x().dtype), dtype_name(call.out().dtype));
    check_operands({&call.x(), &call.out()});
    if (call.out().size() == 0)
        return;
    Array x = axis_last(call.x(), op.axis);
    const Array out = axis_last(call.out(), op.axis);
    Array dense = out;
    const int lead = int(x.rank) - 1;
    Axes axes = collapse({&x, &dense}, lead);
    if (axes.rank > 3) {
        x = contiguous(lowering, x);
        dense = dense_output(lowering, out);
        axes = collapse({&x, &dense}, lead);
    }
    ScanParams params{};
    params.x.rows = uint32_t(axes.size());
    params.x.cols = uint32_t(x.dim(-1));
    fill_back(params.x.shape, 3, axes.shape, axes.rank, 1);
    fill_back(params.x.strides, 3, axes.strides[0], axes.rank, 0);
    fill_back(params.out_strides, 3, axes.strides[1], axes.rank, 0);
    params.x.col_stride = uint32_t(x.stride(-1));
    params.out_col_stride = uint32_t(dense.stride(-1));
    params.x.offset = uint32_t(x.offset);
    params.out_offset = uint32_t(dense.offset);
    const int64_t items = (x.dim(-1) + 3) / 4; // ITEMS of scan.comp
    const uint32_t threads = row_threads(lowering.device(), items);
    check_row_length(items, threads);
    if (too_many_rounds(lowering.device(), scan_rounds(lowering, items, threads)))
        unsupported("a row of {} elements is too long", x.dim(-1));
    const bool quads = !op.reverse && quads_in_rows(dense) && row_quads(lowering.device(), params.x, {});
    lowering.dispatch(spec::scan{.threads = threads,
                                 .x_dtype = x.dtype,
                                 .y_dtype = dense.dtype,
                                 .kind = op.kind,
                                 .exclusive = op.exclusive,
                                 .reverse = op.reverse,
                                 .quads = quads},
                      {.x = {x, KPX_READ}, .y = {dense, KPX_WRITE}}, params, grid_1d(lowering.device(), params.x.rows));
    store_output(lowering, dense, out);
}

} // namespace kpx
