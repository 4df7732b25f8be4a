#include "ops/projection_matrix.hpp"

#include <algorithm>

#include "ops/affine.hpp"
#include "ops/projection_held.hpp"
#include "ops/projection_operands.hpp"

namespace kpx {

namespace {

// The range of rows of x for which it is used: fewer are faster by projection.comp, and more by
// quantized_matmul's kernels, whose sums are rounded differently. Without tensor cores it is used for few rows
// only.
constexpr int64_t kLeastRows = 3, kMostDotRows = 16;
constexpr uint32_t kTeamLanes = 32, kTileRows = 16, kChunk = 4;
// The most teams of a workgroup, and the limits of a compute unit, which are those of NVIDIA's.
constexpr uint32_t kMostTeams = 12, kCpuTeams = 8, kUnitShared = 220 << 10, kUnitRegisters = 65536;
// Registers of a thread, with tiles of 8 and of 16 rows of x, for one and two tiles per team.
constexpr uint32_t kRegisters[2][2] = {{124, 176}, {176, 254}};
constexpr uint32_t kRowTeams = 4; // of a workgroup of projection_rows

// The result of projection_rows.comp.
Array make_rows(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, const ByteTiles &t) {
    const int64_t units = m.cols / 32, blocks = divide_up(m.x_rows, t.side);
    const Array out = lowering.scratch(DT_UINT32, {blocks, divide_up(units, kChunk), X_CHUNK(t.side), 4});
    const ProjectionRowsParams p{uint32_t(m.x_rows), uint32_t(m.x.offset), uint32_t(m.cols),
                                 m.gain ? uint32_t(m.gain.offset) : 0};
    lowering.dispatch(spec::projection_rows{.threads = kRowTeams * kTeamLanes,
                                            .x_dtype = m.x.dtype,
                                            .gain_dtype = gain_dtype(m),
                                            .cols = uint32_t(m.cols),
                                            .norm = norm_constant(op, m),
                                            .teams = kRowTeams,
                                            .side = t.side},
                      {.x = {m.x, KPX_READ}, .gain = {m.gain ? m.gain : m.x, KPX_READ}, .units = {out, KPX_WRITE}}, p,
                      grid_1d(lowering.device(), blocks * divide_up(units, kRowTeams)));
    return out;
}

} // namespace

uint32_t ByteTiles::shared_bytes(uint32_t group_shift) const {
    const uint32_t operands = kTileRows * (2 * kChunk + 1) + std::max(1u, kChunk >> group_shift) * 8;
    const uint32_t tile = std::max(operands, x_blocks * side * 5), x = X_SQUARES(side);
    return abreast * (slots * tiles * tile + x_blocks * x) * 16 + x_blocks * side * 4;
}

bool ByteTiles::fits(const DeviceTraits &device, uint32_t group_shift) const {
    return threads() <= device.max_workgroup_invocations && shared_bytes(group_shift) <= device.max_shared_bytes;
}

namespace {

// An estimate of a launch's time, of which only ratios matter. A workgroup goes through steps of one chunk each. A step
// takes a fixed time, and more for every tile on the compute unit or for loading its parts of x; workgroups on one
// compute unit slow each other down.
uint64_t cost(const ByteTiles &t, const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_shift) {
    constexpr uint32_t kStep = 14, kTile = 1, kPart = 5; // tiles and parts of 8 rows of x
    const uint32_t chunks = divide_up(shape.cols / 32, kChunk), parts = t.group_x_rows() / 8;
    const uint64_t groups = uint64_t(divide_up(shape.rows, t.group_rows())) * divide_up(shape.x_rows, t.group_x_rows());
    const uint32_t registers = kRegisters[t.side / 8 - 1][t.tiles - 1];
    const uint32_t resident = std::max(
        1u, std::min(kUnitShared / t.shared_bytes(group_shift), kUnitRegisters / (registers * t.threads())));
    const uint64_t compute_units = std::max(1u, device.compute_units), rounds = divide_up(chunks, t.abreast * t.run);
    const uint64_t together = std::min<uint64_t>(resident, divide_up(groups, compute_units)); // on one compute unit
    const uint64_t step =
        std::max(kStep + kTile * t.places() * t.tiles * together * parts, kPart * t.abreast * together * parts);
    return divide_up(groups, compute_units * together) * rounds * t.run * step * (1 + together) / 2;
}

} // namespace

// The cheapest launch. Only its lanes determine the order of sums.
ByteTiles plan_byte_tiles(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_shift) {
    ByteTiles best{}, t{};
    const int64_t units = shape.cols / 32;
    t.pair = shape.paired == 2;
    t.lanes = slice_lanes(device, units);
    // CPU drivers, which have no use for large tiles, take two blocks for fewer rows than GPUs, so that tests do.
    t.side = (shape.x_rows <= 8 || device.is_cpu) && device.byte_matrices_of_8 ? 8 : 16;
    t.x_blocks = shape.x_rows > t.side ? 2 : 1;
    const uint32_t most_places = (device.is_cpu ? kCpuTeams : kMostTeams) / t.x_blocks;
    uint64_t least = UINT64_MAX;
    for (t.tiles = t.pair ? 2 : 1; t.tiles <= 2; t.tiles++) {
        for (t.run = t.lanes / kChunk; t.run > 0; t.run /= 2) {
            const uint32_t slice = t.lanes / kChunk / t.run; // teams
            for (t.abreast = slice; t.abreast < divide_up(units, kChunk * t.run) + slice; t.abreast += slice) {
                for (t.slots = 1; t.places() <= most_places; t.slots++) {
                    const uint64_t now = t.fits(device, group_shift) ? cost(t, device, shape, group_shift) : UINT64_MAX;
                    if (now < least) {
                        least = now;
                        best = t;
                    }
                }
            }
        }
    }
    return best;
}

static ByteTiles plan(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return plan_byte_tiles(lowering.device(), projection_shape(op, m), group_shift(op.group_size) - 5);
}

bool takes_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const DeviceTraits &device = lowering.device();
    return m.x_rows >= kLeastRows && m.x_rows <= kMostProjectionRows && op.bits == 4 && m.biases(0) &&
           m.parts.splits == 1 && op.epilogue != PROJECTION_ARG_MAX && takes_integers(lowering) &&
           (device.subgroup_size == kTeamLanes || device.is_cpu) &&
           (m.x_rows <= kMostDotRows || device.as_gpu ||
            lowering.runs_variant(spec::projection_coopmat::kKernel, "khr8")) &&
           lowering.has_kernel(spec::projection_coopmat::kKernel) &&
           lowering.has_kernel(spec::projection_rows::kKernel) && plan(lowering, op, m).lanes != 0;
}

void dispatch_byte_tiles(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (prefers_held_x(lowering, op, m)) {
        dispatch_held_x(lowering, op, m);
        return;
    }
    const ByteTiles t = plan(lowering, op, m);
    const Array x = make_rows(lowering, op, m, t);
    ProjectionParams p{};
    p.x_stride = uint32_t(m.cols);
    const uint32_t groups = fill_groups(p, op, m, t.group_rows());
    const ProjectionBindings bind{m, m.out(0)};
    lowering.dispatch(spec::projection_coopmat{.threads = t.threads(),
                                               .y_dtype = m.out(0).dtype,
                                               .scales_dtype = m.scales(0).dtype,
                                               .biases_dtype = m.biases(0).dtype,
                                               .group_shift = group_shift(op.group_size) - 5,
                                               .cols = uint32_t(m.cols),
                                               .sets = m.count,
                                               .epilogue = op.epilogue,
                                               .lanes = t.lanes,
                                               .abreast = t.abreast,
                                               .slots = t.slots,
                                               .tiles = t.tiles,
                                               .run = t.run,
                                               .side = t.side,
                                               .norm = op.norm,
                                               .x_blocks = t.x_blocks,
                                               .x_dtype = m.x.dtype},
                      {.rows_of_x = bind.read(x),
                       .w0 = bind.w(0),
                       .scales0 = bind.scales(0),
                       .biases0 = bind.biases(0),
                       .y0 = bind.y(0),
                       .w1 = bind.w(1),
                       .scales1 = bind.scales(1),
                       .biases1 = bind.biases(1),
                       .y1 = bind.y(1),
                       .w2 = bind.w(2),
                       .scales2 = bind.scales(2),
                       .biases2 = bind.biases(2),
                       .y2 = bind.y(2),
                       .residual = bind.read(m.residual),
                       .x = bind.read(m.x)},
                      p, grid_1d(lowering.device(), int64_t(groups) * divide_up(m.x_rows, t.group_x_rows())));
}

} // namespace kpx
