#include "ops/projection_held.hpp"

#include <algorithm>
#include <tuple>

#include "ops/affine.hpp"
#include "ops/lowering_util.hpp"

namespace kpx {

namespace {

constexpr uint32_t kTileRows = 16, kMostChunk = 4, kMostTiles = 2;
// The most teams of a workgroup, and the limits of a compute unit, which are those of NVIDIA's.
constexpr uint32_t kMostTeams = 24, kCpuTeams = 8, kUnitShared = 220 << 10, kUnitRegisters = 65536, kUnitGroups = 2;
// It is faster than projection_coopmat for up to so many products of a tile and a unit on a compute unit; and from some
// rows of x on for more of them, if there are few tiles. The first counts 8 rows of x, the others all of them by
// eights.
constexpr int64_t kMostWork = 100, kManyRows = 32, kMoreWork = 1500, kFewTiles = 10;

class HeldPlanner {
  public:
    HeldPlanner(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_shift, bool matrices)
        : device_(device), shape_(shape), group_shift_(group_shift), units_(divide_up(shape.cols, 32)),
          compute_units_(std::max(1u, device.compute_units)) {
        t_.pair = shape.paired == 2;
        t_.matrices = matrices;
        t_.lanes = slice_lanes(device, units_);
        t_.side = device.byte_matrices_of_8 || !matrices ? 8 : 16;
    }

    HeldTiles best() {
        const uint32_t most_teams = device_.is_cpu ? kCpuTeams : kMostTeams;
        for (t_.chunk = 2; t_.chunk <= kMostChunk; t_.chunk *= 2) {
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
    // From one workgroup on each compute unit to one for each turn.
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

    // First how often compute units are filled with workgroups, then the time that a team takes, of which only ratios
    // matter; fitted to chains of 36 products of four models with 8 to 64 rows, and 10 to 40 launches each.
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

ProjectionShape shape_of(const ProjectionOp &op, const ProjectionOperands &m) {
    const bool pair = op.epilogue == PROJECTION_SILU_MUL;
    int64_t n = 0;
    for (uint32_t i = 0; i < (pair ? 1 : m.count); i++) {
        n += divide_up(m.w(i).dim(0), kMostTiles * kTileRows) * (kMostTiles * kTileRows);
    }
    return {.rows = n,
            .cols = m.cols,
            .x_rows = m.x_rows,
            .paired = pair ? 2u : 1u,
            .integers = true,
            .norm = op.norm != 0,
            .arg_max = false,
            .subgroup = true};
}

HeldTiles plan(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return plan_held_tiles(lowering.device(), shape_of(op, m), group_shift(op.group_size) - 5,
                           lowering.runs_variant(spec::projection_held::kKernel, "khr8"));
}

} // namespace

uint32_t HeldTiles::shared_bytes(uint32_t group_shift) const {
    const uint32_t codes = kTileRows * 5 + std::max(1u, chunk >> group_shift) * 8, x = 9 * side + side / 2;
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

bool prefers_held_x(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const ProjectionShape shape = shape_of(op, m);
    const int64_t compute_units = std::max(1u, lowering.device().compute_units);
    const int64_t tiles = shape.rows / kTileRows * shape.paired, work = tiles * (m.cols / 32);
    const int64_t blocks = divide_up(m.x_rows, 8);
    const bool few = m.x_rows >= kManyRows && work * blocks <= kMoreWork * compute_units &&
                     tiles * blocks <= kFewTiles * compute_units;
    return (work <= kMostWork * compute_units || few) && lowering.has_kernel(spec::projection_held::kKernel) &&
           plan(lowering, op, m).lanes != 0;
}

void dispatch_held_x(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const bool pair = op.epilogue == PROJECTION_SILU_MUL;
    const HeldTiles t = plan(lowering, op, m);
    ProjectionHeldParams p{};
    uint32_t turns = 0;
    for (uint32_t i = 0; i < m.count; i++) {
        p.sets[i] = projection_set(m, i);
        if (i > 0 && !pair) {
            p.starts[i - 1] = turns;
        }
        turns += i == 0 || !pair ? divide_up(p.sets[i].n, t.turn_rows()) : 0;
    }
    p.x_rows = uint32_t(m.x_rows);
    p.x_offset = uint32_t(m.x.offset);
    p.gain_offset = m.gain ? uint32_t(m.gain.offset) : 0;
    p.residual_offset = m.residual ? uint32_t(m.residual.offset) : 0;
    p.groups = std::min(t.groups, turns);
    p.eps = op.eps;
    const Array none;
    const auto read = [&](const Array &a) { return Binding{a ? a : m.x, KPX_READ}; };
    const auto of = [&](uint32_t i, const Array *ProjectionOperands::Matrix::*operand) -> const Array & {
        return i < m.count ? *(m.matrices[i].*operand) : none;
    };
    const auto write = [&](uint32_t i) { return Binding{i < m.count && m.out(i) ? m.out(i) : m.out(0), KPX_WRITE}; };
    using Matrix = ProjectionOperands::Matrix;
    lowering.dispatch(spec::projection_held{.threads = t.threads(),
                                            .y_dtype = m.out(0).dtype,
                                            .scales_dtype = m.scales(0).dtype,
                                            .biases_dtype = m.biases(0).dtype,
                                            .group_shift = group_shift(op.group_size) - 5,
                                            .cols = uint32_t(m.cols),
                                            .sets = m.count,
                                            .epilogue = op.epilogue,
                                            .lanes = t.lanes,
                                            .teams = t.teams,
                                            .chunk = t.chunk,
                                            .tiles = t.tiles,
                                            .side = t.side,
                                            .norm = op.norm == 0 ? 0u
                                                    : m.gain     ? 2u
                                                                 : 1u,
                                            .turns = t.rounds > 1 ? t.turns : 1,
                                            .x_dtype = m.x.dtype,
                                            .gain_dtype = m.gain ? m.gain.dtype : m.x.dtype},
                      {.x = read(m.x),
                       .w0 = read(of(0, &Matrix::w)),
                       .scales0 = read(of(0, &Matrix::scales)),
                       .biases0 = read(of(0, &Matrix::biases)),
                       .y0 = write(0),
                       .w1 = read(of(1, &Matrix::w)),
                       .scales1 = read(of(1, &Matrix::scales)),
                       .biases1 = read(of(1, &Matrix::biases)),
                       .y1 = write(1),
                       .w2 = read(of(2, &Matrix::w)),
                       .scales2 = read(of(2, &Matrix::scales)),
                       .biases2 = read(of(2, &Matrix::biases)),
                       .y2 = write(2),
                       .residual = read(m.residual),
                       .gain = read(m.gain)},
                      p, grid_1d(lowering.device(), int64_t(p.groups) * divide_up(m.x_rows, t.side)));
}

} // namespace kpx
