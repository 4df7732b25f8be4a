// Projections of several rows by matrices of bytes (projection_coopmat.comp).
#include <algorithm>

#include "ops/affine.hpp"
#include "ops/projection.hpp"
#include "ops/projection_launch.hpp"

namespace kpx {

namespace {

// Rows of x that it takes: fewer are faster by projection.comp, more by quantized_matmul_coopmat, whose sums are
// others. Without tensor cores it is for few only.
constexpr int64_t kLeastRows = 3, kMostRows = 64, kMostDotRows = 16;
constexpr uint32_t kTeamLanes = 32, kTileRows = 16, kChunk = 4;
// Teams of a workgroup: with more, registers spill, but for a small side where that makes one round of several.
constexpr uint32_t kMostTeams = 16, kSmallTeams = 20, kCpuTeams = 8;

// What projection_rows.comp makes.
struct Rows {
    Array digits, units, factors;
};

uint32_t norm_of(const ProjectionOp &op, const ProjectionOperands &m) {
    return op.norm == 0 ? 0 : m.gain ? 2 : 1;
}

Rows make_rows(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, const ByteTiles &t) {
    const DeviceTraits &device = lowering.device();
    const int64_t units = m.cols / 32, blocks = divide_up(m.x_rows, t.side), side = t.side;
    const Rows out{lowering.scratch(DT_UINT32, {blocks, units, 3, side, 8}),
                   lowering.scratch(DT_FLOAT32, {blocks, units, 2, side}),
                   lowering.scratch(DT_FLOAT32, {blocks, side})};
    const ProjectionRowsParams p{uint32_t(m.x_rows), uint32_t(m.x.offset), uint32_t(m.cols),
                                 m.gain ? uint32_t(m.gain.offset) : 0, op.eps};
    lowering.dispatch(spec::projection_rows{.threads = row_threads(device, m.cols / 8, 512),
                                            .x_dtype = m.x.dtype,
                                            .gain_dtype = m.gain ? m.gain.dtype : m.x.dtype,
                                            .cols = uint32_t(m.cols),
                                            .norm = norm_of(op, m),
                                            .lanes = t.lanes,
                                            .side = t.side},
                      {.x = {m.x, KPX_READ},
                       .gain = {m.gain ? m.gain : m.x, KPX_READ},
                       .digits = {out.digits, KPX_WRITE},
                       .units = {out.units, KPX_WRITE},
                       .factors = {out.factors, KPX_WRITE}},
                      p, grid_1d(device, blocks * side));
    return out;
}

} // namespace

uint32_t ByteTiles::shared_bytes(uint32_t group_shift) const {
    const uint32_t operands = kTileRows * (2 * kChunk + 1) + std::max(1u, kChunk >> group_shift) * 8;
    const uint32_t team_quads = std::max(operands, side * 5);
    const uint32_t tiles = rounds > 1 ? turns * slots : 0; // whose sums wait
    return abreast * slots * team_quads * 16 + std::max(1u, tiles * kTileRows * side) * 4;
}

bool ByteTiles::fits(const DeviceTraits &device, uint32_t group_shift) const {
    return threads() <= device.max_workgroup_invocations && shared_bytes(group_shift) <= device.max_shared_bytes;
}

namespace {

uint32_t most_teams(const ByteTiles &t, const DeviceTraits &device) {
    return device.is_cpu ? kCpuTeams : t.side == 8 ? kSmallTeams : kMostTeams;
}

constexpr uint32_t kRoundCost = 8; // of a round, beside what its chunks take

// How many chunks of a row a workgroup takes at a time, a multiple of the slice's: few rounds, and few idle teams.
uint32_t chunks_abreast(ByteTiles t, const DeviceTraits &device, uint32_t group_shift, uint32_t chunks) {
    const uint32_t slice = t.lanes / kChunk, most = most_teams(t, device);
    t.slots = t.turns = 1;
    uint32_t best = slice, least = UINT32_MAX;
    for (uint32_t n = slice; n <= std::max(most, slice); n += slice) {
        t.abreast = n;
        t.rounds = divide_up(chunks, n);
        const uint32_t cost = t.rounds * (n + kRoundCost);
        if (cost <= least && t.fits(device, group_shift) && (n <= kMostTeams || t.rounds == 1)) {
            best = n;
            least = cost;
        }
    }
    return best;
}

} // namespace

ByteTiles plan_byte_tiles(const DeviceTraits &device, const ProjectionShape &shape, uint32_t group_shift) {
    ByteTiles t{};
    const int64_t units = shape.cols / 32;
    t.pair = shape.paired == 2;
    t.lanes = slice_lanes(device, units);
    t.side = shape.x_rows <= 8 && device.byte_matrices_of_8 ? 8 : 16;
    const uint32_t blocks = divide_up(shape.x_rows, t.side), chunks = divide_up(units, kChunk);
    const uint32_t tiles = divide_up(shape.rows, kTileRows) * shape.paired;
    const uint32_t wanted = divide_up(int64_t(tiles) * blocks, std::max(1u, device.compute_units)); // of a workgroup
    t.abreast = chunks_abreast(t, device, group_shift, chunks);
    t.rounds = divide_up(chunks, t.abreast);
    const uint32_t most_slots = most_teams(t, device) / t.abreast;
    t.slots = wanted >= 2 && most_slots >= 2 ? 2 : 1;
    const uint32_t step = t.pair && t.slots == 1 ? 2 : 1; // of turns
    t.turns = divide_up(wanted, t.slots * step) * step;
    while (!t.fits(device, group_shift) && (t.turns > step || t.slots > 1)) {
        if (t.turns > step) {
            t.turns -= step;
        } else {
            t.slots = 1;
            t.turns = t.pair ? 2 : 1;
        }
    }
    return t;
}

static ByteTiles plan(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const bool pair = op.epilogue == PROJECTION_SILU_MUL;
    int64_t n = 0;
    for (uint32_t i = 0; i < (pair ? 1 : m.count); i++) {
        n += m.w(i).dim(0);
    }
    const ProjectionShape shape{.rows = n,
                                .cols = m.cols,
                                .x_rows = m.x_rows,
                                .paired = pair ? 2u : 1u,
                                .integers = true,
                                .norm = op.norm != 0,
                                .arg_max = false,
                                .subgroup = true};
    return plan_byte_tiles(lowering.device(), shape, group_shift(op.group_size) - 5);
}

bool takes_byte_tiles(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const DeviceTraits &device = lowering.device();
    return m.x_rows >= kLeastRows && m.x_rows <= kMostRows && op.bits == 4 && m.biases(0) && m.parts.splits == 1 &&
           op.epilogue != PROJECTION_ARG_MAX && takes_integers(lowering) &&
           (device.subgroup_size == kTeamLanes || device.is_cpu) &&
           (m.x_rows <= kMostDotRows || device.as_gpu ||
            lowering.runs_variant(spec::projection_coopmat::kKernel, "khr8")) &&
           lowering.has_kernel(spec::projection_coopmat::kKernel) &&
           lowering.has_kernel(spec::projection_rows::kKernel) &&
           plan(lowering, op, m).fits(device, group_shift(op.group_size) - 5);
}

void dispatch_byte_tiles(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const DeviceTraits &device = lowering.device();
    const bool pair = op.epilogue == PROJECTION_SILU_MUL;
    const ByteTiles t = plan(lowering, op, m);
    const Rows x = make_rows(lowering, op, m, t);
    ProjectionParams p{};
    uint32_t groups = 0;
    for (uint32_t i = 0; i < m.count; i++) {
        p.sets[i] = projection_set(m, i);
        if (i > 0 && !pair) {
            p.starts[i - 1] = groups;
        }
        groups += i == 0 || !pair ? divide_up(p.sets[i].n, t.group_rows()) : 0;
    }
    p.x_rows = uint32_t(m.x_rows);
    p.residual_offset = m.residual ? uint32_t(m.residual.offset) : 0;
    const Array none;
    const auto read = [&](const Array &a) { return Binding{a ? a : x.digits, KPX_READ}; };
    const auto of = [&](uint32_t i, const Array *ProjectionOperands::Matrix::*operand) -> const Array & {
        return i < m.count ? *(m.matrices[i].*operand) : none;
    };
    const auto write = [&](uint32_t i) { return Binding{i < m.count && m.out(i) ? m.out(i) : m.out(0), KPX_WRITE}; };
    using Matrix = ProjectionOperands::Matrix;
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
                                               .turns = t.turns,
                                               .side = t.side,
                                               .norm = op.norm,
                                               .held = t.turns > 1},
                      {.digits = read(x.digits),
                       .units = read(x.units),
                       .factors = read(x.factors),
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
                       .residual = read(m.residual)},
                      p, grid_1d(device, int64_t(groups) * divide_up(m.x_rows, t.side)));
}

} // namespace kpx
