#include "ops/projection_fragments.hpp"

#include <algorithm>

#include "ops/affine.hpp"
#include "ops/projection_held.hpp"
#include "ops/projection_join.hpp"
#include "ops/projection_operands.hpp"

namespace kpx {

namespace {

constexpr int64_t kLeastIdleRows = 33;           // of products that give each compute unit little to do
constexpr int64_t kLeastNarrowCols = 2048;       // of up to 8 rows of x
constexpr int64_t kLeastAwaitedTiles = 10000;    // of parts, where other kernels would wait for x by themselves
constexpr int64_t kMostFragmentSums = 256 << 20; // bytes of the sums of parts

} // namespace

// With two digits of x, four bytes together; with one, or with spans of one unit, the kernel needs less.
uint32_t FragmentTiles::shared_bytes(uint32_t group_size) const {
    const uint32_t chunks = kPart / std::min(kMostChunk, group_size / 32);
    const uint32_t digits = side * kPart * 32 * 4, factors = chunks * side * 24;
    return digits + factors + teams * kHeldChunks * kPairRows * 4;
}

// Takes as many teams as fit, and the number of turns with the shortest estimated time. The estimate is fitted to
// products of 16 and 32 rows on an H200, and only its ratios matter: two workgroups on a compute unit take nearly twice
// as long as one. If estimates are equal, the one with more turns wins: fewer workgroups then make digits of x.
FragmentTiles plan_fragments(const DeviceTraits &device, uint32_t side, uint32_t group_size, int64_t others,
                             const std::vector<int64_t> &tiles) {
    constexpr uint64_t kResident = 2; // workgroups of a compute unit, by their registers
    constexpr uint64_t kStep = 1, kTogether = 15, kFixed = 96, kFixedTogether = 4;
    FragmentTiles t{.side = side, .teams = FragmentTiles::kMostTeams, .turns = 0};
    while (t.teams > 0 &&
           (t.threads() > device.max_workgroup_invocations || t.shared_bytes(group_size) > device.max_shared_bytes)) {
        t.teams--;
    }
    if (t.teams == 0) {
        return t;
    }
    const uint64_t compute_units = std::max(1u, device.compute_units);
    const uint64_t most = divide_up(*std::max_element(tiles.begin(), tiles.end()), t.teams * FragmentTiles::kTiles);
    uint64_t least = UINT64_MAX;
    for (uint64_t turns = most; turns > 0; turns--) {
        const uint64_t workgroups = part_groups(tiles, t.teams * turns * FragmentTiles::kTiles) * uint64_t(others);
        const uint64_t together = std::min(kResident, uint64_t(divide_up(workgroups, compute_units)));
        // Steps of 128 columns. With smaller groups there are more, all of them shorter.
        const uint64_t steps = turns * (FragmentTiles::kPart / FragmentTiles::kMostChunk);
        const uint64_t cost = divide_up(workgroups, compute_units * together) *
                              (kFixed + kFixedTogether * together + steps * (kStep + kTogether * together));
        if (cost < least) {
            least = cost;
            t.turns = uint32_t(turns);
        }
    }
    return t;
}

static bool is_narrow(const ProjectionOperands &m) {
    return m.x_rows < kLeastFragmentRows;
}
static uint32_t side_of(const ProjectionOperands &m) {
    return is_narrow(m) ? 8 : 16;
}

static FragmentTiles fragments_for(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const uint32_t side = side_of(m);
    const int64_t others = parts_and_blocks(m, FragmentTiles::kPart, side);
    return plan_fragments(lowering.device(), side, op.group_size, others, tiles_of_each(m));
}

static uint32_t lanes_of(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return slice_lanes(lowering.device(), m.cols / 32, span_units(lowering, op, m));
}

// Whether a row has the same bits as with other kernels, or may have others. Those of up to 8 rows never may.
static bool bits_suit(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    return (lowering.device().batch_variant && !is_narrow(m)) ||
           span_units(lowering, op, m) == FragmentTiles::kMostChunk;
}

// Whether up to 8 rows are faster than by projection_parts.
static bool suits_few_rows(const DeviceTraits &device, const ProjectionOperands &m) {
    const int64_t tiles = tiles_of_all(m) * divide_up(m.cols / 32, FragmentTiles::kPart);
    return m.cols >= kLeastNarrowCols && (!device.overlaps || tiles >= kLeastAwaitedTiles);
}

bool takes_fragments(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const DeviceTraits &device = lowering.device();
    const bool narrow_scales = m.scales(0).element_size() == 2 && m.biases(0).element_size() == 2;
    if (!device.fragments || (is_narrow(m) && !suits_few_rows(device, m)) || op.bits != 4 || op.group_size < 32 ||
        !narrow_scales || lanes_of(lowering, op, m) < FragmentTiles::kPart || !bits_suit(lowering, op, m) ||
        !lowering.has_kernel(spec::projection_fragments::kKernel) ||
        !lowering.has_kernel(spec::projection_join::kKernel)) {
        return false;
    }
    for (uint32_t i = 0; i < m.count; i++) {
        const int64_t rows = m.w(i).dim(0);
        if (rows < FragmentTiles::kPairRows ||
            rows % 4 != 0) { // coopMatStore takes sums from the last pair of tiles on
            return false;
        }
    }
    return (m.x_rows >= kLeastIdleRows || !has_little_work(lowering, op, m)) &&
           fragments_for(lowering, op, m).teams != 0 &&
           part_sums_bytes(m, FragmentTiles::kPart, side_of(m)) <=
               std::min<int64_t>(kMostFragmentSums, int64_t(device.max_tensor_bytes));
}

PartSums dispatch_fragments(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    const OneMatrix one(m, kTileOfSums);
    const ProjectionOperands joined = one.alone();
    constexpr uint32_t kPart = FragmentTiles::kPart;
    const FragmentTiles t = fragments_for(lowering, op, joined);
    const PartSums sums = make_part_sums(lowering, op, m, kPart, t.side, lanes_of(lowering, op, m));
    const int64_t groups = part_groups(tiles_of_each(joined), t.teams * t.turns * FragmentTiles::kTiles);
    const ProjectionBindings bind{joined, m.out(0)};
    const bool one_digit = lowering.device().batch_variant && m.x.dtype != DT_FLOAT32 && !is_narrow(m);
    lowering.dispatch(spec::projection_fragments{.threads = t.threads(),
                                                 .y_dtype = m.out(0).dtype,
                                                 .scales_dtype = m.scales(0).dtype,
                                                 .biases_dtype = m.biases(0).dtype,
                                                 .group_shift = group_shift(op.group_size) - 5,
                                                 .cols = uint32_t(m.cols),
                                                 .sets = joined.count,
                                                 .part = kPart,
                                                 .teams = t.teams,
                                                 .turns = t.turns,
                                                 .norm = norm_constant(op, m),
                                                 .x_dtype = m.x.dtype,
                                                 .gain_dtype = gain_dtype(m),
                                                 .digits_of_x = one_digit ? 1u : 2u,
                                                 .side = t.side},
                      {.x = bind.read(m.x),
                       PROJECTION_MATRIX(bind, 0, bind.unused()),
                       PROJECTION_MATRIX(bind, 1, bind.unused()),
                       PROJECTION_MATRIX(bind, 2, bind.unused()),
                       .part_sums = {sums.sums, KPX_WRITE},
                       .gain = bind.read(m.gain),
                       .squares = {sums.squares, KPX_WRITE}},
                      part_params(op, joined), grid_1d(lowering.device(), groups * parts_and_blocks(m, kPart, t.side)));
    return sums;
}

} // namespace kpx
