// Projections of several rows by cooperative matrices of bytes (projection_coopmat.comp).
#pragma once

#include <optional>

#include "ops/projection_join.hpp"

namespace kpx {

// Whether a projection that has passed check_projection is computed that way.
bool takes_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
// Its sums of parts, if they are what the fastest kernel stores; else it does nothing.
std::optional<PartSums> dispatch_part_sums(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_byte_tiles(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
