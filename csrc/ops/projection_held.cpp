#include "ops/projection_held.hpp"

#include <algorithm>
#include <tuple>

#include "ops/affine.hpp"
#include "ops/lowering_util.hpp"
#include "ops/projection_operands.hpp"

namespace kpx {

namespace {

constexpr uint32_t kTileRows = 16, kMostChunk = 4, kMostTiles = 2;
// The most teams of a workgroup, and the limits of a compute unit, which are those of NVIDIA's.
constexpr uint32_t kMostTeams = 24, kCpuTeams = 8, kUnitShared = 220 << 10, kUnitRegisters = 65536, kUnitGroups = 2;
// It is faster than other kernels for up to so many products of a tile and a unit on a compute unit.
constexpr int64_t kMostWork = 100;

class HeldPlanner {
  public:
    HeldPlanner(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_shift, bool matrices)
        : device_(device), shape_(shape), group_shift_(group_shift), units_(divide_up(shape.cols, 32)),
          compute_units_(std::max(1u, device.compute_units)) {
        t_.pair = shape.paired == 2;
        t_.matrices = matrices;
        t_.lanes = slice_lanes(device, units_, shape.span);
        t_.side = device.byte_matrices_of_8 || !matrices ? 8 : 16;
    }

    HeldTiles best() {
        const uint32_t most_teams = device_.is_cpu ? kCpuTeams : kMostTeams;
        for (t_.chunk = std::max(2u, shape_.span); t_.chunk <= kMostChunk; t_.chunk *= 2) {
            const uint32_t slice = t_.lanes / t_.chunk; // teams
            for (t_.tiles = t_.pair ? 2 : 1; t_.tiles <= kMostTiles; t_.tiles++) {
                for (t_.teams = slice; t_.teams <= most_teams && t_.teams < divide_up(units_, t_.chunk) + slice;
                     t_.teams += slice) {
                    t_.rounds = divide_up(units_, t_.chunk * t_.teams);
                    consider();
                }
            }
        }
        return best_;
    }

  private:
    // Tries one and two workgroups on each compute unit, and one for each turn.
    void consider() {
        const uint32_t turns = divide_up(shape_.rows, t_.turn_rows()), blocks = divide_up(shape_.x_rows, t_.side);
        for (const uint32_t wanted : {compute_units_ / blocks, 2 * compute_units_ / blocks, turns}) {
            t_.turns = divide_up(turns, std::max(1u, wanted));
            t_.groups = divide_up(turns, t_.turns);
            if (!t_.fits(device_, group_shift_)) {
                continue;
            }
            const Cost now = cost(t_.groups * blocks);
            if (now < least_) {
                least_ = now;
                best_ = t_;
            }
        }
    }

    using Cost = std::tuple<uint32_t, uint64_t>;

    // Compares first how often compute units are filled with workgroups, then the time that a team takes. Only ratios
    // matter: it is fitted to chains of 36 products of four models with 8 to 64 rows, and 10 to 40 launches each.
    Cost cost(uint32_t groups) const {
        constexpr uint64_t kRound = 118, kTurn = 1, kUnit = 210;
        const uint32_t registers = 58 + 12 * t_.chunk * t_.side / 8;
        const uint32_t resident = std::clamp(
            std::min(kUnitShared / t_.shared_bytes(group_shift_), kUnitRegisters / (registers * t_.threads())), 1u,
            kUnitGroups);
        const uint32_t together = std::min(resident, divide_up(groups, compute_units_));
        const uint64_t turn = kTurn + kUnit * t_.chunk * t_.tiles * t_.side / 8;
        return {divide_up(groups, compute_units_ * together), t_.rounds * (kRound + t_.turns * turn)};
    }

    const DeviceTraits &device_;
    const ProjectionShape &shape_;
    uint32_t group_shift_, units_, compute_units_;
    HeldTiles t_{}, best_{};
    Cost least_{UINT32_MAX, UINT64_MAX};
};

ProjectionShape shape_of(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return projection_shape(lowering, op, m, kMostTiles * kTileRows);
}

HeldTiles plan(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return plan_held_tiles(lowering.device(), shape_of(lowering, op, m), group_shift(op.group_size) - 5,
                           lowering.runs_variant(spec::projection_held::kKernel, "khr8"));
}

} // namespace

uint32_t HeldTiles::shared_bytes(uint32_t group_shift) const {
    const uint32_t codes = kTileRows * 5 + std::max(1u, chunk >> group_shift) * 8, x = 9 * side + side / 4 * 3;
    const uint32_t operands = matrices ? std::max(codes, x) : codes + chunk * x;
    const uint32_t sums = tiles * side * (tiles == 1 ? 5 : 4), tile = kTileRows * side * 4;
    return teams * (operands + sums) * 16 + (rounds > 1 ? turns * tiles * tile : 4) + side * 4 +
           (matrices ? 0 : side * lanes * 4);
}

bool HeldTiles::fits(const DeviceTraits &device, uint32_t group_shift) const {
    return threads() <= device.max_workgroup_invocations && shared_bytes(group_shift) <= device.max_shared_bytes;
}

HeldTiles plan_held_tiles(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_shift,
                          bool matrices) {
    return HeldPlanner(device, shape, group_shift, matrices).best();
}

// Tiles of the rows of w of all matrices.
static int64_t tiles_of(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const ProjectionShape shape = shape_of(lowering, op, m);
    return shape.rows / kTileRows * shape.paired;
}

bool has_little_work(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return tiles_of(lowering, op, m) * (m.cols / 32) <= kMostWork * std::max(1u, lowering.device().compute_units);
}

bool prefers_held_x(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (op.bits != 4 || op.group_size < 32) {
        return false;
    }
    return has_little_work(lowering, op, m) && lowering.has_kernel(spec::projection_held::kKernel) &&
           plan(lowering, op, m).lanes != 0;
}

void dispatch_held_x(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const HeldTiles t = plan(lowering, op, m);
    ProjectionHeldParams p{};
    p.groups = std::min(t.groups, fill_groups(p, op, m, t.turn_rows()));
    const OneMatrix one(m, 1);
    one.place(p.sets);
    const ProjectionOperands bound = one.for_bindings();
    const ProjectionBindings bind{bound, m.out(0)};
    const bool awaits = m.x.dtype == DT_FLOAT32, gives = m.out(0).dtype == DT_FLOAT32;
    lowering.dispatch(spec::projection_held{.threads = t.threads(),
                                            .y_dtype = m.out(0).dtype,
                                            .scales_dtype = m.scales(0).dtype,
                                            .biases_dtype = bound_biases(m.scales(0), m.biases(0)).dtype,
                                            .group_shift = group_shift(op.group_size) - 5,
                                            .cols = uint32_t(m.cols),
                                            .sets = m.count,
                                            .epilogue = op.epilogue,
                                            .lanes = t.lanes,
                                            .teams = t.teams,
                                            .chunk = t.chunk,
                                            .tiles = t.tiles,
                                            .side = t.side,
                                            .norm = norm_constant(op, m),
                                            .turns = t.rounds > 1 ? t.turns : 1,
                                            .x_dtype = m.x.dtype,
                                            .gain_dtype = gain_dtype(m),
                                            .span = span_units(lowering, op, m),
                                            .one_matrix = one.exists(),
                                            .overlap = 0},
                      {.x = bind.read(m.x, awaits),
                       PROJECTION_MATRIX(bind, 0, bind.y(0, gives)),
                       PROJECTION_MATRIX(bind, 1, bind.y(1, gives)),
                       PROJECTION_MATRIX(bind, 2, bind.y(2, gives)),
                       .residual = bind.read(m.residual, awaits && gives),
                       .gain = bind.read(m.gain)},
                      p, grid_1d(lowering.device(), int64_t(p.groups) * divide_up(m.x_rows, t.side)));
}

} // namespace kpx
