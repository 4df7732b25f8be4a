// Projections of several rows by cooperative matrices of bytes (projection_coopmat.comp).
#pragma once

#include "ops/projection.hpp"

namespace kpx {

// Whether a projection that has passed check_projection is computed that way.
bool takes_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_byte_tiles(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

// x as projection_rows.comp gives it, in blocks of `side` rows.
Array make_rows(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, uint32_t side);

// How many words the scales of a chunk fill, and so do its biases, that begin where words do; 0 if they do not.
uint32_t scale_words(const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
