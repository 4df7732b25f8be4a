// Projections of several rows by matrices made in registers (projection_fragments.comp): the sums of parts.
#pragma once

#include "ops/projection_join.hpp"

namespace kpx {

constexpr int64_t kLeastFragmentRows = 9; // of x. With fewer, only some products are faster than by other kernels

bool takes_fragments(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
PartSums dispatch_fragments(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
