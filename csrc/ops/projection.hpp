// What other lowerings use of the projection op.
#pragma once

#include "ops/op.hpp"
#include "ops/op_params.h"

namespace kpx {

// The operands of a projection. Absent ones are empty arrays.
struct ProjectionOperands {
    // How x is given: as a row, or as parts of attention over so many splits (parts.glsl) of heads of `head` elements.
    struct Parts {
        uint32_t splits = 1;
        uint32_t head = 4;
    };

    const Array &x, &gain, &residual;
    const Array *first; // w, scales, biases, out of the first of `count` matrices
    uint32_t count;
    int64_t cols; // of the row
    Parts parts;

    const Array &w(uint32_t i) const { return first[4 * i]; }
    const Array &scales(uint32_t i) const { return first[4 * i + 1]; }
    const Array &biases(uint32_t i) const { return first[4 * i + 2]; }
    const Array &out(uint32_t i) const { return first[4 * i + 3]; }
};

// Whether the kernel can do it; x is not looked at.
Support check_projection(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_projection(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
