// Projections of several rows by cooperative matrices of bytes (projection_coopmat.comp).
#pragma once

#include <optional>

#include "ops/projection_join.hpp"

namespace kpx {

// Whether a projection that has passed check_projection is computed that way.
bool takes_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
// Its sums of parts, if they are what the fastest kernel stores; else it does nothing.
std::optional<PartSums> dispatch_part_sums(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

// The most rows of x of which each is multiplied with affine or mxfp4 weights to the same bits as alone: as long as
// products are those of integers.
uint32_t invariant_rows(const Lowering &lowering);
void dispatch_byte_tiles(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
