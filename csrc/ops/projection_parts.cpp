#include "ops/projection_parts.hpp"

#include <algorithm>

#include "ops/affine.hpp"
#include "ops/projection_join.hpp"
#include "ops/projection_operands.hpp"
#include "ops/projection_rows.hpp"

namespace kpx {

namespace {

constexpr uint32_t kChunkUnits = 4, kMostPart = 16, kMostSide = 16;
constexpr uint32_t kMostPartTeams = 8, kCpuPartTeams = 2;
constexpr int64_t kMostSums = 64 << 20; // bytes of the sums of parts
// Products of a tile, a unit and 8 rows of x for each compute unit from which it is faster than projection_coopmat.
// Codes of 4 bits with less to do take projection_held, so the limit decides for others.
constexpr int64_t kLeastPartWork = 60;

// Where dispatches overlap, products of more rows than these are faster after a barrier.
constexpr int64_t kMostAwaitedRows = 8;

PartTiles plan_parts(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return plan_part_tiles(lowering.device(), projection_shape(lowering, op, m), tiles_of_each(m), op.group_size);
}

} // namespace

uint32_t PartTiles::shared_bytes(uint32_t group_size) const {
    const uint32_t tile = kTileOfSums * (2 * kChunkUnits + 1) + std::max(1u, kChunkUnits * 32 / group_size) * 8;
    return (teams * tile + part / kChunkUnits * X_SQUARES(side)) * 16;
}

// Takes as many teams as fit, and the number of turns with the shortest estimated time, of which only ratios matter: a
// turn takes steps of one chunk, somewhat longer with several workgroups on a compute unit, and making the digits of x
// takes a few steps.
PartTiles plan_part_tiles(const DeviceTraits &device, const ProjectionShape &shape, const std::vector<int64_t> &tiles,
                          uint32_t group_size) {
    constexpr uint64_t kStep = 8, kTogether = 1, kFixed = 20;
    PartTiles t{};
    t.lanes = slice_lanes(device, shape.cols / 32, shape.span);
    t.part = std::min(t.lanes, kMostPart);
    t.side = shape.x_rows <= 8 && device.byte_matrices_of_8 ? 8 : kMostSide;
    t.teams = device.is_cpu ? kCpuPartTeams : kMostPartTeams;
    while (t.teams > 0 &&
           (t.threads() > device.max_workgroup_invocations || t.shared_bytes(group_size) > device.max_shared_bytes)) {
        t.teams--;
    }
    if (t.teams == 0) {
        return t;
    }
    const uint64_t others = divide_up(shape.cols / 32, t.part) * divide_up(shape.x_rows, t.side); // parts and blocks
    const uint64_t compute_units = std::max(1u, device.compute_units), resident = t.side == 8 ? 2 : 1;
    const uint64_t most = divide_up(*std::max_element(tiles.begin(), tiles.end()), t.teams);
    uint64_t least = UINT64_MAX;
    for (uint64_t turns = most; turns > 0; turns--) {
        const uint64_t workgroups = part_groups(tiles, t.teams * turns) * others;
        const uint64_t together = std::min(resident, uint64_t(divide_up(workgroups, compute_units)));
        const uint64_t steps = turns * (t.part / kChunkUnits) * (kStep + kTogether * (together - 1));
        const uint64_t cost = divide_up(workgroups, compute_units * together) * (kFixed + steps);
        if (cost < least) {
            least = cost;
            t.turns = uint32_t(turns);
        }
    }
    return t;
}

bool takes_parts(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (op.group_size < 32 || !lowering.has_kernel(spec::projection_parts::kKernel) ||
        !lowering.has_kernel(spec::projection_join::kKernel)) {
        return false;
    }
    const DeviceTraits &device = lowering.device();
    const int64_t work = tiles_of_all(m) * (m.cols / 32) * divide_up(m.x_rows, 8);
    if (!device.is_cpu && work < kLeastPartWork * std::max(1u, device.compute_units)) {
        return false; // CPU drivers take it for little work, too, so that tests do
    }
    const PartTiles t = plan_parts(lowering, op, m);
    return t.teams != 0 && part_sums_bytes(m, t.part, kMostSide) <= kMostSums;
}

PartSums dispatch_parts(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const OneMatrix one(m, kTileOfSums);
    const ProjectionOperands joined = one.alone();
    const PartTiles t = plan_parts(lowering, op, joined);
    const PartSums sums = make_part_sums(lowering, op, m, t.part, t.side, t.lanes);
    const int64_t groups = part_groups(tiles_of_each(joined), t.teams * t.turns);
    const ProjectionBindings bind{joined, m.out(0)};
    const bool awaits = m.x.dtype == DT_FLOAT32 && m.x_rows <= kMostAwaitedRows;
    lowering.dispatch(spec::projection_parts{.threads = t.threads(),
                                             .y_dtype = m.out(0).dtype,
                                             .scales_dtype = m.scales(0).dtype,
                                             .biases_dtype = bound_biases(m.scales(0), m.biases(0)).dtype,
                                             .group_shift = group_shift(op.group_size) - 5,
                                             .cols = uint32_t(m.cols),
                                             .sets = joined.count,
                                             .part = t.part,
                                             .teams = t.teams,
                                             .turns = t.turns,
                                             .side = t.side,
                                             .bits = op.bits,
                                             .scale_words = scale_words(op, joined),
                                             .norm = norm_constant(op, m),
                                             .x_dtype = m.x.dtype,
                                             .gain_dtype = gain_dtype(m),
                                             .span = span_units(lowering, op, m),
                                             .overlap = 0},
                      {.x = bind.read(m.x, awaits),
                       PROJECTION_MATRIX(bind, 0, bind.unused()),
                       PROJECTION_MATRIX(bind, 1, bind.unused()),
                       PROJECTION_MATRIX(bind, 2, bind.unused()),
                       .part_sums = {sums.sums, KPX_WRITE},
                       .gain = bind.read(m.gain),
                       .squares = {sums.squares, KPX_WRITE}},
                      part_params(op, joined),
                      grid_1d(lowering.device(), groups * parts_and_blocks(m, t.part, t.side)));
    return sums;
}

} // namespace kpx
