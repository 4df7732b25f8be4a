// What kernels that multiply bytes read: x as digits (projection_coopmat.comp), and whether scales are read by words
// (projection_parts.comp, too).
#pragma once

#include "ops/projection.hpp"

namespace kpx {

// x as projection_rows.comp gives it, in blocks of `side` rows.
Array make_rows(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, uint32_t side);

// How many words the scales of a chunk fill, and so do its biases, that begin where words do; 0 if they do not.
uint32_t scale_words(const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
