// What the lowerings of a projection to its kernels have in common.
#pragma once

#include "ops/projection.hpp"
#include "ops/projection_launch.hpp"

namespace kpx {

// The bindings of a kernel. The first matrix or result is bound in place of absent arrays, and not used there: unlike
// x, no dispatch of a token writes it, so there is nothing to wait for.
struct ProjectionBindings {
    using Matrix = ProjectionOperands::Matrix;

    const ProjectionOperands &m;
    const Array &out; // bound as the first result

    // overlaps: as in Binding.
    Binding read(const Array &array, bool overlaps = false) const {
        return array ? Binding{array, KPX_READ, overlaps} : unused();
    }
    Binding unused() const { return {m.w(0), KPX_READ}; }
    Binding w(uint32_t i) const { return operand(i, &Matrix::w); }
    Binding scales(uint32_t i) const { return operand(i, &Matrix::scales); }
    Binding biases(uint32_t i) const { return operand(i, &Matrix::biases); }
    Binding y(uint32_t i, bool overlaps = false) const {
        const bool exists = i > 0 && i < m.count && m.out(i);
        return {exists ? m.out(i) : out, KPX_WRITE, overlaps && (exists || i == 0)};
    }

  private:
    Binding operand(uint32_t i, const Array *Matrix::*member) const {
        return {i < m.count && *(m.matrices[i].*member) ? *(m.matrices[i].*member) : m.w(0), KPX_READ};
    }
};

// A matrix and its result, or what is bound in its place, in the list of a kernel's bindings (PROJECTION_MATRIX of
// projection_matrices.glsl). A macro, because each kernel's list is a struct of its own.
#define PROJECTION_MATRIX(bind, i, result)                                                                             \
    .w##i = (bind).w(i), .scales##i = (bind).scales(i), .biases##i = (bind).biases(i), .y##i = result

// The matrices of a projection as one. It exists if there are several whose rows follow each other in memory, as those
// that were loaded for the same x do, and if all but the last consist of whole tiles of `tile` rows. If it does not
// exist, alone and for_bindings return m's operands, and place changes nothing. What they return points into this
// object, which refers to m, so both must live longer.
class OneMatrix {
  public:
    OneMatrix(const ProjectionOperands &m, int64_t tile);
    OneMatrix(const OneMatrix &) = delete;
    OneMatrix &operator=(const OneMatrix &) = delete;

    bool exists() const { return exists_; }

    // The operands with it as the only matrix, for kernels that do not store the matrices' results. These then have one
    // loop instead of one for each matrix.
    ProjectionOperands alone() const;

    // The operands with it in place of every matrix, for bindings only. place() then changes the kernel's parameters,
    // so that the kernel (ONE_MATRIX) can load all matrices from the first one's bindings.
    ProjectionOperands for_bindings() const;
    void place(ProjectionSet (&sets)[3]) const;

  private:
    const ProjectionOperands &m_;
    bool exists_;
    Array w_, scales_, biases_;
};

// Whether two matrices are read side by side, of which one result is made.
inline bool is_pair(const ProjectionOp &op) {
    return op.epilogue == PROJECTION_SILU_MUL;
}

// Whether the result is where the largest product is.
inline bool finds_largest(const ProjectionOp &op) {
    return op.epilogue == PROJECTION_ARG_MAX || op.epilogue == PROJECTION_GREEDY;
}

// The kernels' constant: 0 without normalization, 2 with a gain.
inline uint32_t norm_constant(const ProjectionOp &op, const ProjectionOperands &m) {
    return op.norm == 0 ? 0 : m.gain ? 2 : 1;
}

inline uint32_t gain_dtype(const ProjectionOperands &m) {
    return m.gain ? m.gain.dtype : m.x.dtype;
}

// The units of a span (unit_integers.glsl): those that share a scale, as far as a subgroup can make integers of them.
uint32_t span_units(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

// What a launch for integers is planned for, with each matrix's rows rounded up to a multiple.
ProjectionShape projection_shape(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m,
                                 int64_t multiple = 1);

// Matrix i and its result, in the form that the kernels read.
ProjectionSet projection_set(const ProjectionOperands &m, uint32_t i);

// Fills what the parameters of a kernel share, for groups of `rows` rows of a matrix. Returns the number of groups.
template <typename Params>
uint32_t fill_groups(Params &p, const ProjectionOp &op, const ProjectionOperands &m, uint32_t rows) {
    uint32_t groups = 0;
    for (uint32_t i = 0; i < m.count; i++) {
        p.sets[i] = projection_set(m, i);
        if (i > 0 && is_pair(op)) {
            continue; // read with the first
        }
        if (i > 0) {
            p.starts[i - 1] = groups;
        }
        groups += divide_up(p.sets[i].n, rows);
    }
    p.x_rows = uint32_t(m.x_rows);
    p.x_offset = uint32_t(m.x.offset);
    p.gain_offset = m.gain ? uint32_t(m.gain.offset) : 0;
    p.residual_offset = m.residual ? uint32_t(m.residual.offset) : 0;
    p.eps = op.eps;
    return groups;
}

} // namespace kpx
