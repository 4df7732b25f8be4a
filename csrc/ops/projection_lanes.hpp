// The form of a projection for CPU drivers (projection_lanes.comp), in which each lane has rows of its own and each
// matrix a dispatch.
#pragma once

#include "ops/projection_operands.hpp"

namespace kpx {

// Throws KPX_UNSUPPORTED if such a driver would end the kernel's loops.
void check_projection_lanes(const DeviceTraits &device, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_projection_lanes(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
