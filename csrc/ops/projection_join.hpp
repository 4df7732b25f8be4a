// Projections of several rows whose columns are divided among workgroups: the sums of parts, which projection_parts or
// projection_fragments makes. projection_join adds them up, or the kernels that prepare heads of new tokens do
// (HeadSums).
#pragma once

#include "ops/lowering_util.hpp"
#include "ops/projection_operands.hpp"

namespace kpx {

// Rows of a matrix for which a kernel makes sums together.
constexpr uint32_t kTileOfSums = 16;

// The tiles of each matrix, and of all.
std::vector<int64_t> tiles_of_each(const ProjectionOperands &m);
int64_t tiles_of_all(const ProjectionOperands &m);

// Workgroups for a part of the columns, if each has up to `most` tiles of one matrix.
int64_t part_groups(const std::vector<int64_t> &tiles, int64_t most);

// Workgroups for one of those: parts of so many units of 32 columns, and blocks of so many rows of x.
inline int64_t parts_and_blocks(const ProjectionOperands &m, uint32_t part, uint32_t side) {
    return int64_t(divide_up(m.cols / 32, part)) * divide_up(m.x_rows, side);
}

struct PartSums {
    uint32_t part, side, lanes; // lanes: units of a slice, one or two parts
    Array sums;                 // by part, row of x rounded up to a multiple of side, and tile
    Array squares;              // of units of x, for a norm; else the sums
    ProjectionParams params;    // of projection_join: its starts are first tiles
};

int64_t part_sums_bytes(const ProjectionOperands &m, uint32_t part, uint32_t side);
PartSums make_part_sums(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, uint32_t part,
                        uint32_t side, uint32_t lanes);

// The parameters of the kernel that makes the sums, for the operands that it has (OneMatrix).
ProjectionParams part_params(const ProjectionOp &op, const ProjectionOperands &m);

void join_parts(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, const PartSums &sums);

} // namespace kpx
