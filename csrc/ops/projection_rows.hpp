// For kernels that multiply bytes: x as digits, which projection_coopmat.comp reads, and whether it and
// projection_parts.comp read scales by words.
#pragma once

#include "ops/projection.hpp"

namespace kpx {

// x as projection_rows.comp gives it, in blocks of `side` rows.
Array make_rows(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, uint32_t side);

// How many words the scales of a chunk fill, and so do its biases, that begin where words do; 0 if they do not.
uint32_t scale_words(const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
