// What other lowerings use of the projection op.
#pragma once

#include "ops/gen_ops.hpp"
#include "types.h"

namespace kpx {

// The most rows of x that the kernels of projections take.
constexpr int64_t kMostProjectionRows = 64;

// The operands of a projection. Absent ones are empty arrays.
struct ProjectionOperands {
    // How x is given: as a row, or as the partial results of attention over that many splits (attention_parts.glsl),
    // with heads of `head` elements.
    struct Parts {
        uint32_t splits = 1;
        uint32_t head = 4;
    };

    const Array &x, &gain, &up, &residual;
    struct Matrix {
        const Array *w, *scales, *biases, *out;
    };
    std::array<Matrix, ProjectionCall::kGroups> matrices; // the first `count` of them
    uint32_t count;
    int64_t cols;   // of a row of x
    int64_t x_rows; // which are contiguous, unless there are more than kMostProjectionRows
    Parts parts;

    const Array &w(uint32_t i) const { return *matrices[i].w; }
    const Array &scales(uint32_t i) const { return *matrices[i].scales; }
    const Array &biases(uint32_t i) const { return *matrices[i].biases; }
    const Array &out(uint32_t i) const { return *matrices[i].out; }
};

// Whether a row of x is multiplied as integers, if codes fit into bytes.
bool takes_integers(const Lowering &lowering);

// CODE_BYTES of code_bytes.glsl.
inline bool has_code_bytes(uint32_t bits, bool biases) {
    return bits == 4 || biases;
}

// Whether the kernels can read x without a copy.
inline bool rows_in_quads(const Array &x) {
    return x.contiguous() && x.offset % 4 == 0;
}
// Throws if the kernels cannot do it; it does not look at x.
void check_projection(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_projection(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
