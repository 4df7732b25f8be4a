// What other lowerings use of the projection op.
#pragma once

#include "ops/gen_ops.hpp"
#include "types.h"

namespace kpx {

// The operands of a projection. Absent ones are empty arrays.
struct ProjectionOperands {
    // How x is given: as a row, or as parts of attention over so many splits (attention_parts.glsl) of heads of `head`
    // elements.
    struct Parts {
        uint32_t splits = 1;
        uint32_t head = 4;
    };

    const Array &x, &gain, &residual;
    struct Matrix {
        const Array *w, *scales, *biases, *out;
    };
    std::array<Matrix, ProjectionCall::kGroups> matrices; // the first `count` of them
    uint32_t count;
    int64_t cols;   // of a row of x
    int64_t x_rows; // which lie one after another
    Parts parts;

    const Array &w(uint32_t i) const { return *matrices[i].w; }
    const Array &scales(uint32_t i) const { return *matrices[i].scales; }
    const Array &biases(uint32_t i) const { return *matrices[i].biases; }
    const Array &out(uint32_t i) const { return *matrices[i].out; }
};

// Whether a row of x is multiplied as integers where codes of affine matrices have 4 bits.
bool takes_integers(const Lowering &lowering);

// Matrix i and its result, as the kernels read them.
ProjectionSet projection_set(const ProjectionOperands &m, uint32_t i);

// Projections of several rows by matrices of bytes, which passed check_projection (projection_matrix.cpp).
bool takes_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_byte_tiles(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

// Whether the kernels read x as it lies.
inline bool rows_in_quads(const Array &x) {
    return x.contiguous() && x.offset % 4 == 0;
}
// Throws why the kernels cannot do it; x is not looked at.
void check_projection(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_projection(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
