// Projections of several rows that give a compute unit little to do, with x in registers (projection_held.comp).
#pragma once

#include "ops/projection.hpp"
#include "ops/projection_launch.hpp"

namespace kpx {

// How projection_held is launched: its constants, and how often it goes through x and through rows of matrices.
struct HeldTiles {
    uint32_t lanes, teams, chunk, tiles, side;
    uint32_t rounds, turns; // turns of a workgroup
    uint32_t groups;        // workgroups for a block of rows of x
    bool pair;              // tiles of two matrices alternate
    bool matrices;          // cooperative ones instead of dot products

    uint32_t threads() const { return teams * 32; }
    uint32_t turn_rows() const { return tiles * 16 / (pair ? 2 : 1); } // of each matrix
    uint32_t shared_bytes(uint32_t group_shift) const;                 // of the kernel
    bool fits(const DeviceTraits &device, uint32_t group_shift) const;
};

// The rows of the shape are those of each matrix rounded up to turns. Without lanes if no launch fits.
HeldTiles plan_held_tiles(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_shift,
                          bool matrices);

// Whether a compute unit has little to do.
bool has_little_work(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

// Whether a projection that byte tiles can do (projection_matrix.hpp) is faster that way. The bits are the same.
bool prefers_held_x(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);
void dispatch_held_x(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m);

} // namespace kpx
