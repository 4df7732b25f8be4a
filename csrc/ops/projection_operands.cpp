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
            .arg_max = finds_largest(op),
            .subgroup = true,
            .mended = op.norm == 0};
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

// Whether the rows of b begin where those of a end.
static bool follows(const Array &a, const Array &b) {
    if (!a || !b) {
        return !a && !b;
    }
    const int64_t size = a.element_size();
    return a.buffer == b.buffer && a.stride(0) == b.stride(0) &&
           int64_t(a.base) + (a.offset + a.dim(0) * a.stride(0)) * size == int64_t(b.base) + b.offset * size;
}

static bool is_one_matrix(const ProjectionOperands &m, int64_t tile) {
    for (uint32_t i = 0; i + 1 < m.count; i++) {
        if (m.w(i).dim(0) % tile != 0 || !follows(m.w(i), m.w(i + 1)) || !follows(m.scales(i), m.scales(i + 1)) ||
            !follows(m.biases(i), m.biases(i + 1))) {
            return false;
        }
    }
    return true;
}

OneMatrix::OneMatrix(const ProjectionOperands &m, int64_t tile)
    : m_(m), exists_(m.count > 1 && is_one_matrix(m, tile)), w_(m.w(0)), scales_(m.scales(0)), biases_(m.biases(0)) {
    for (uint32_t i = 1; exists_ && i < m.count; i++) {
        for (Array *array : {&w_, &scales_, &biases_}) {
            if (*array) {
                array->shape[0] += m.w(i).dim(0);
            }
        }
    }
}

ProjectionOperands OneMatrix::for_bindings() const {
    ProjectionOperands all = m_;
    for (uint32_t i = 0; exists_ && i < m_.count; i++) {
        all.matrices[i] = {&w_, &scales_, &biases_, m_.matrices[i].out};
    }
    return all;
}

ProjectionOperands OneMatrix::alone() const {
    ProjectionOperands one = for_bindings();
    one.count = exists_ ? 1 : m_.count;
    return one;
}

void OneMatrix::place(ProjectionSet (&sets)[3]) const {
    for (uint32_t i = 1; exists_ && i < m_.count; i++) {
        const ProjectionSet &before = sets[i - 1];
        sets[i].w_offset = before.w_offset + before.n * before.w_stride;
        sets[i].s_offset = before.s_offset + before.n * before.s_stride;
        sets[i].b_offset = before.b_offset + before.n * before.b_stride;
    }
}

} // namespace kpx
