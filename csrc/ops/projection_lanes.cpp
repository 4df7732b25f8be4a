#include "ops/projection_lanes.hpp"

#include "ops/affine.hpp"
#include "ops/rounds.hpp"

namespace kpx {

namespace {

// The rounds of the kernel's loops with so many rows of each matrix in a lane. A norm makes NaNs of rows of x that are
// not finite, so results need not be computed again.
int64_t projection_lane_rounds(const ProjectionOp &op, const ProjectionOperands &m, uint32_t rows) {
    const uint32_t mended = op.norm != 0 ? 0 : is_pair(op) ? 2 * rows : rows;
    return lane_rounds(m.cols, op.group_size, mended);
}

void dispatch_lanes(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, uint32_t first) {
    const uint32_t second = is_pair(op) ? 1 : first;
    uint32_t rows = rows_of_lane(m.w(first).dim(0), is_pair(op) ? 4 : 8);
    while (rows > 1 && too_many_rounds(lowering.device(), projection_lane_rounds(op, m, rows))) {
        rows /= 2;
    }
    ProjectionParams p{};
    fill_groups(p, op, m, LANES * rows);
    p.sets[0] = projection_set(m, first);
    p.sets[1] = projection_set(m, second);
    const ProjectionBindings bind{m, m.out(first)};
    lowering.dispatch(spec::projection_lanes{.threads = LANES,
                                             .x_dtype = m.x.dtype,
                                             .gain_dtype = gain_dtype(m),
                                             .y_dtype = m.out(first).dtype,
                                             .scales_dtype = m.scales(0).dtype,
                                             .biases_dtype = m.biases(0).dtype,
                                             .bits = op.bits,
                                             .group_shift = group_shift(op.group_size) - 5,
                                             .cols = uint32_t(m.x.size()),
                                             .norm = norm_constant(op, m),
                                             .epilogue = op.epilogue,
                                             .rows = rows},
                      {.x = bind.read(m.x),
                       .gain = bind.read(m.gain),
                       .residual = bind.read(m.residual),
                       .w0 = bind.w(first),
                       .scales0 = bind.scales(first),
                       .biases0 = bind.biases(first),
                       .y = bind.y(0),
                       .w1 = bind.w(second),
                       .scales1 = bind.scales(second),
                       .biases1 = bind.biases(second)},
                      p, grid_1d(lowering.device(), divide_up(p.sets[0].n, LANES * rows)));
}

} // namespace

void check_projection_lanes(const DeviceTraits &device, const ProjectionOp &op, const ProjectionOperands &m) {
    check_rounds(device, projection_lane_rounds(op, m, 1));
}

void dispatch_projection_lanes(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const uint32_t dispatches = is_pair(op) ? 1 : m.count;
    for (uint32_t i = 0; i < dispatches; i++) {
        dispatch_lanes(lowering, op, m, i);
    }
}

} // namespace kpx
