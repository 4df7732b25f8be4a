// Projections of more than 8 rows by matrices made in registers (projection_fragments.comp, projection_join.comp).
#pragma once

#include "ops/projection.hpp"

namespace kpx {

bool takes_fragments(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_fragments(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
