#include "ops/projection_matrix.hpp"

#include <algorithm>

#include "ops/affine.hpp"
#include "ops/projection_fragments.hpp"
#include "ops/projection_held.hpp"
#include "ops/projection_operands.hpp"
#include "ops/projection_parts.hpp"
#include "ops/projection_rows.hpp"

namespace kpx {

namespace {

// The range of rows of x for which it is used: fewer are faster by projection.comp, and more by
// quantized_matmul's kernels, whose sums are rounded differently. Without tensor cores it is used for few rows
// only.
constexpr int64_t kLeastRows = 3, kMostDotRows = 16;
constexpr uint32_t kTeamLanes = 32, kTileRows = 16, kChunk = 4, kPartUnits = 16;
// The most teams of a workgroup, and the limits of a compute unit, which are those of NVIDIA's.
constexpr uint32_t kMostTeams = 12, kCpuTeams = 8, kUnitShared = 220 << 10, kUnitRegisters = 65536;
// Registers of a thread, with tiles of 8 and of 16 rows of x, for one and two tiles per team.
constexpr uint32_t kRegisters[2][2] = {{124, 176}, {176, 254}};
// A unit with two scales takes the time of two. So projection.comp is faster for fewer rows of x, and where a compute
// unit has little to do.
constexpr int64_t kLeastHalvedRows = 5;

// Scales of a unit of 32 columns.
uint32_t unit_scales(uint32_t group_size) {
    return group_size < 32 ? 2 : 1;
}

} // namespace

uint32_t ByteTiles::shared_bytes(uint32_t group_size) const {
    const uint32_t pitch = (unit_scales(group_size) + 1) * kChunk + 1;
    const uint32_t operands = kTileRows * pitch + std::max(1u, kChunk * 32 / group_size) * 8;
    const uint32_t tile = std::max(operands, x_blocks * side * 5), x = X_SQUARES(side);
    return abreast * (slots * tiles * tile + x_blocks * x) * 16 + x_blocks * side * 4;
}

bool ByteTiles::fits(const DeviceTraits &device, uint32_t group_size) const {
    return threads() <= device.max_workgroup_invocations && shared_bytes(group_size) <= device.max_shared_bytes;
}

namespace {

// Finds the cheapest launch by the estimates of cost().
class ByteTilesPlanner {
  public:
    ByteTilesPlanner(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_size)
        : device_(device), shape_(shape), group_size_(group_size), chunks_(divide_up(shape.cols / 32, kChunk)) {
        t_.pair = shape.paired == 2;
        t_.lanes = slice_lanes(device, shape.cols / 32, shape.span);
        // CPU drivers, which have no use for large tiles, take two blocks for fewer rows than GPUs, so that tests do.
        t_.side = (shape.x_rows <= 8 || device.is_cpu) && device.byte_matrices_of_8 ? 8 : 16;
        t_.x_blocks = shape.x_rows > t_.side ? 2 : 1;
    }

    // Two blocks of x together if they fit.
    void consider_blocks() {
        consider_whole_rows();
        if (least_ == UINT64_MAX && t_.x_blocks > 1) {
            t_.x_blocks = 1;
            consider_whole_rows();
        }
    }

    ByteTiles best() const { return best_; }

  private:
    void consider_whole_rows() {
        const uint32_t units = uint32_t(shape_.cols / 32);
        for (t_.tiles = t_.pair ? 2 : 1; t_.tiles <= 2; t_.tiles++) {
            for (const uint32_t run : {std::min(t_.lanes, kPartUnits) / kChunk, 1u}) {
                t_.run = run;
                const uint32_t slice = t_.lanes / kChunk / t_.run; // teams
                for (t_.abreast = slice; t_.abreast < divide_up(units, kChunk * t_.run) + slice; t_.abreast += slice) {
                    consider_slots();
                }
            }
        }
    }

    void consider_slots() {
        const uint32_t most = (device_.is_cpu ? kCpuTeams : kMostTeams) / t_.x_blocks;
        for (t_.slots = 1; t_.places() <= most; t_.slots++) {
            const uint64_t now = t_.fits(device_, group_size_) ? cost() : UINT64_MAX;
            if (now < least_) {
                least_ = now;
                best_ = t_;
            }
        }
    }

    // An estimate of a launch's time, of which only ratios matter; a unit is some 50 ns on an H100. A workgroup goes
    // through steps of one chunk each. A step takes a fixed time, and more for every tile on the compute unit or for
    // loading its parts of x; workgroups on one compute unit slow each other down.
    uint64_t cost() const {
        constexpr uint32_t kStep = 14, kTile = 1, kPart = 5; // tiles and parts of 8 rows of x
        const uint32_t parts = t_.group_x_rows() / 8, registers = kRegisters[t_.side / 8 - 1][t_.tiles - 1];
        const uint64_t blocks = divide_up(shape_.x_rows, t_.group_x_rows());
        const uint64_t groups = divide_up(shape_.rows, t_.group_rows()) * blocks;
        const uint32_t resident = std::max(
            1u, std::min(kUnitShared / t_.shared_bytes(group_size_), kUnitRegisters / (registers * t_.threads())));
        const uint64_t compute_units = std::max(1u, device_.compute_units);
        const uint64_t rounds = divide_up(chunks_, t_.abreast * t_.run);
        const uint64_t together = std::min<uint64_t>(resident, divide_up(groups, compute_units)); // on one compute unit
        const uint64_t step =
            std::max(kStep + kTile * t_.places() * t_.tiles * together * parts, kPart * t_.abreast * together * parts);
        return divide_up(groups, compute_units * together) * rounds * t_.run * step * (1 + together) / 2;
    }

    const DeviceTraits &device_;
    const ProjectionShape &shape_;
    const uint32_t group_size_, chunks_;
    ByteTiles t_{}, best_{};
    uint64_t least_ = UINT64_MAX;
};

} // namespace

// The cheapest launch. Only its lanes determine the order of sums.
ByteTiles plan_byte_tiles(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_size) {
    ByteTilesPlanner planner(device, shape, group_size);
    planner.consider_blocks();
    return planner.best();
}

static ByteTiles plan(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return plan_byte_tiles(lowering.device(), projection_shape(lowering, op, m), op.group_size);
}

// Whether there are enough rows of x, and not too many.
static bool suits_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (unit_scales(op.group_size) == 1 || lowering.device().is_cpu) {
        return m.x_rows >= kLeastRows && m.x_rows <= kMostProjectionRows;
    }
    return m.x_rows >= kLeastHalvedRows && m.x_rows <= kMostDotRows && !has_little_work(lowering, op, m);
}

// Whether the device has the kernels for that many rows of x.
static bool has_byte_tiles(const Lowering &lowering, int64_t rows) {
    const DeviceTraits &device = lowering.device();
    return takes_integers(lowering) && (device.subgroup_size == kTeamLanes || device.is_cpu) &&
           (rows <= kMostDotRows || device.as_gpu ||
            lowering.runs_variant(spec::projection_coopmat::kKernel, "khr8")) &&
           lowering.has_kernel(spec::projection_coopmat::kKernel) &&
           lowering.has_kernel(spec::projection_rows::kKernel);
}

bool takes_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return suits_byte_tiles(lowering, op, m) && has_code_bytes(op.bits, bool(m.biases(0))) && m.parts.splits == 1 &&
           !finds_largest(op) && has_byte_tiles(lowering, m.x_rows) && plan(lowering, op, m).lanes != 0;
}

uint32_t invariant_rows(const Lowering &lowering) {
    const DeviceTraits &device = lowering.device();
    const bool forms = !device.is_cpu || device.as_gpu; // CPU drivers have no kernels for several rows
    if (!forms || !takes_integers(lowering) || device.subgroup_size < 8 || device.subgroup_size > 128) {
        return 1;
    }
    if (device.batch_variant) {
        return kLeastFragmentRows - 1;
    }
    return has_byte_tiles(lowering, kMostProjectionRows) ? kMostProjectionRows : kMostDotRows;
}

std::optional<PartSums> dispatch_part_sums(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (takes_fragments(lowering, op, m)) {
        return dispatch_fragments(lowering, op, m);
    }
    if (!prefers_held_x(lowering, op, m) && takes_parts(lowering, op, m)) {
        return dispatch_parts(lowering, op, m);
    }
    return std::nullopt;
}

void dispatch_byte_tiles(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (const std::optional<PartSums> sums = dispatch_part_sums(lowering, op, m)) {
        join_parts(lowering, op, m, *sums);
        return;
    }
    if (prefers_held_x(lowering, op, m)) {
        dispatch_held_x(lowering, op, m);
        return;
    }
    const ByteTiles t = plan(lowering, op, m);
    const Array x = make_rows(lowering, op, m, t.side);
    ProjectionParams p{};
    p.x_stride = uint32_t(m.cols);
    const uint32_t groups = fill_groups(p, op, m, t.group_rows());
    const ProjectionBindings bind{m, m.out(0)};
    lowering.dispatch(spec::projection_coopmat{.threads = t.threads(),
                                               .y_dtype = m.out(0).dtype,
                                               .scales_dtype = m.scales(0).dtype,
                                               .biases_dtype = bound_biases(m.scales(0), m.biases(0)).dtype,
                                               .group_shift = std::max(group_shift(op.group_size), 5u) - 5,
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
                                               .x_dtype = m.x.dtype,
                                               .bits = op.bits,
                                               .scale_words = scale_words(op, m),
                                               .unit_scales = unit_scales(op.group_size),
                                               .span = span_units(lowering, op, m)},
                      {.rows_of_x = bind.read(x),
                       PROJECTION_MATRIX(bind, 0, bind.y(0)),
                       PROJECTION_MATRIX(bind, 1, bind.y(1)),
                       PROJECTION_MATRIX(bind, 2, bind.y(2)),
                       .residual = bind.read(m.residual),
                       .x = bind.read(m.x)},
                      p, grid_1d(lowering.device(), int64_t(groups) * divide_up(m.x_rows, t.group_x_rows())));
}

} // namespace kpx
