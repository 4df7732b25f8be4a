// Projections of several rows whose columns are divided among workgroups (projection_parts.comp): the sums of parts.
#pragma once

#include "ops/projection_join.hpp"

namespace kpx {

// Whether a projection that takes byte tiles (projection_matrix.hpp) is computed that way.
bool takes_parts(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
PartSums dispatch_parts(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
