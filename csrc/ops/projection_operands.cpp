#include "ops/projection_operands.hpp"

#include <algorithm>

namespace kpx {

uint32_t span_units(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (!takes_integers(lowering) || op.bits > 4 || !m.biases(0)) {
        return 1;
    }
    constexpr uint32_t kMost = 4, kUnitLanes = 4;
    return std::clamp(std::min(op.group_size / 32, lowering.device().subgroup_size / kUnitLanes), 1u, kMost);
}

ProjectionShape projection_shape(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m,
                                 int64_t multiple) {
    int64_t rows = 0;
    for (uint32_t i = 0; i < (is_pair(op) ? 1 : m.count); i++) {
        rows += divide_up(m.w(i).dim(0), multiple) * multiple;
    }
    return {.rows = rows,
            .cols = m.cols,
            .x_rows = m.x_rows,
            .paired = is_pair(op) ? 2u : 1u,
            .bits = op.bits,
            .integers = true,
            .span = span_units(lowering, op, m),
            .norm = op.norm != 0,
            .arg_max = op.epilogue == PROJECTION_ARG_MAX,
            .subgroup = true};
}

ProjectionSet projection_set(const ProjectionOperands &m, uint32_t i) {
    ProjectionSet set{};
    set.n = uint32_t(m.w(i).dim(0));
    set.w_offset = uint32_t(m.w(i).offset);
    set.w_stride = uint32_t(m.w(i).stride(0));
    set.s_offset = uint32_t(m.scales(i).offset);
    set.s_stride = uint32_t(m.scales(i).stride(0));
    set.b_offset = uint32_t(m.biases(i).offset);
    set.b_stride = uint32_t(m.biases(i).stride(0));
    set.out_offset = m.out(i) ? uint32_t(m.out(i).offset) : 0;
    return set;
}

} // namespace kpx
