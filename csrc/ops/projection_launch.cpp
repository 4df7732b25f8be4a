#include "ops/projection_launch.hpp"

#include <algorithm>

#include "ops/lowering_util.hpp"
#include "ops/rounds.hpp"

namespace kpx {

namespace {

constexpr uint32_t kMostXRows = 4;      // the most per workgroup: with more, registers spill
constexpr uint32_t kThreads = 768;      // of a workgroup
constexpr uint32_t kUnitThreads = 1024; // of a compute unit
// The threads of a workgroup that takes many turns, by how many such workgroups a compute unit has: with two rows of
// matrices of 4 bits in flight, and with four, or two of more bits. Drivers assign as many registers as a workgroup of
// its size may have, and the rest does not suffice for a second one.
constexpr uint32_t kLongThreads[] = {768, 352}, kWideThreads[] = {640, 256};
constexpr uint32_t kFewThreads = 256; // of a compute unit: fewer would not hide its loads
// The number of rows per compute unit from which on four in flight pay, for one matrix and for two side by side.
constexpr uint32_t kManyRows[] = {256, 40};
// Where dispatches overlap, a workgroup of this many turns or more should have its compute unit to itself: of two that
// share one, both must be done before a workgroup of the next dispatch fits.
constexpr uint32_t kManyTurns = 4;
constexpr uint32_t kCpuThreads = 64; // there, they run one after another
constexpr uint32_t kSmall = 64;      // bytes of shared memory that belong to no array
constexpr uint32_t kLeastRows = 8;   // rows whose results shared memory must hold

// Bytes of shared memory for a unit of 32 columns of a row of x: as floats, as integers, and in a span of several
// units.
constexpr uint64_t kFloatUnit = 128 + 8, kIntegerUnit = 96 + 8, kSpanUnit = kIntegerUnit + 16;

class Planner {
  public:
    Planner(const DeviceTraits &device, const ProjectionShape &shape) : device_(device), shape_(shape) {
        const int64_t units = shape.cols / 32;
        base_.lanes = slice_lanes(device, units, shape.span);
        base_.slices = divide_up(units, base_.lanes);
        base_.x_rows = 1;
        while (base_.x_rows < kMostXRows && base_.x_rows < shape.x_rows &&
               !too_many_rounds(device, 2 * base_.x_rows * shape.paired * result_rounds())) {
            base_.x_rows *= 2;
        }
        find_piece();
    }

    ProjectionLaunch best() {
        const uint32_t fit = 4 / shape_.paired / width(), most = device_.is_cpu || base_.x_rows > 1 ? 2 : 4;
        const uint32_t most_rows = std::min(most, fit);
        for (uint32_t groups : {1u, 2u}) { // workgroups of a compute unit
            for (uint32_t rows = 2 / shape_.paired; rows <= most_rows; rows *= 2) {
                consider(groups, rows);
            }
        }
        check_rounds(device_, rounds(best_));
        return best_;
    }

  private:
    // As many columns at a time as fit, beside the results of a few rows. x takes less as integers, but that is relied
    // on only if all columns fit that way.
    void find_piece() {
        const uint64_t squares = shape_.norm ? uint64_t(shape_.cols) / 32 * 4 * base_.x_rows : 0;
        const uint64_t by_thread = (shape_.arg_max ? 8 : 0) + (shape_.subgroup ? 0 : 4);
        const uint64_t besides = squares + by_thread * kThreads + kSmall;
        const uint64_t taken = besides + result_bytes() * kLeastRows;
        const uint64_t left = taken < device_.max_shared_bytes ? device_.max_shared_bytes - taken : 0;
        uint64_t slice = uint64_t(base_.lanes) * base_.x_rows * (shape_.span > 1 ? kSpanUnit : kIntegerUnit);
        if (!shape_.integers || left / slice < base_.slices) {
            slice = uint64_t(base_.lanes) * base_.x_rows * kFloatUnit;
        }
        piece_slices_ = uint32_t(std::min<uint64_t>(left / slice, base_.slices));
        if (piece_slices_ == 0) {
            unsupported("rows of {} elements exceed shared memory", shape_.cols);
        }
        base_.piece = piece_slices_ * base_.lanes * 32;
        const uint64_t whole = uint64_t(base_.lanes) * base_.x_rows * kFloatUnit * piece_slices_;
        const uint64_t staged = whole <= left ? whole : slice * piece_slices_;
        spare_ = device_.max_shared_bytes - besides - staged;
    }

    // Bytes of shared memory that a row of a matrix takes for its partial results.
    uint64_t result_bytes() const { return uint64_t(base_.slices) * shape_.paired * base_.x_rows * 4; }

    // Rounds of a thread's loops (rounds.hpp) for a result: SUM_NOT_FINITE has up to 50 for a unit.
    int64_t result_rounds() const { return 2 + (shape_.mended ? shape_.cols / 32 * 50 : 0); }

    // Rounds of all its loops: for each piece it makes what it needs of x, and multiplies some slices with the rows
    // of some turns; at the end, results are divided among the threads.
    int64_t rounds(const ProjectionLaunch &l) const {
        const int64_t pieces = divide_up(l.slices, piece_slices_), folds = divide_up(piece_slices_, l.abreast);
        const int64_t work = folds * (4 + l.turns * (l.x_rows + 2)), staged = l.piece / 32 * l.x_rows / l.lanes;
        const int64_t results = int64_t(l.x_rows) * shape_.paired * divide_up(l.group_rows(), l.threads());
        return pieces * (work + 2 * staged + 4) + results * result_rounds();
    }

    void consider(uint32_t groups, uint32_t rows) {
        ProjectionLaunch l = base_;
        l.rows = rows;
        const bool four = rows * shape_.paired * width() >= 4;
        const uint32_t wanted = divide_up(shape_.rows, int64_t(units()) * groups);
        deal(l, wanted, std::min(kThreads, kUnitThreads / groups));
        if (l.turns > (four ? 1 : 2)) {
            deal(l, wanted, (four ? kWideThreads : kLongThreads)[groups - 1]);
        }
        while (l.turns > 1 && result_bytes() * l.group_rows() > spare_) {
            l.turns--;
        }
        while (l.slots > 1 && result_bytes() * l.group_rows() > spare_) {
            l.slots--;
        }
        while (l.turns > 1 && too_many_rounds(device_, rounds(l))) {
            l.turns--;
        }
        // How even the load is, and then smaller effects: two workgroups overlap their beginnings and ends,
        // but each has to load x.
        const uint32_t count = divide_up(shape_.rows, l.group_rows());
        const double even = double(shape_.rows) / (double(divide_up(count, units())) * units() * l.group_rows());
        const bool many = divide_up(shape_.rows, units()) >= kManyRows[shape_.paired - 1];
        const bool one = l.threads() * 8 < shape_.cols || (l.turns >= 4 && l.turns < 8);
        const bool shares =
            device_.overlaps && !device_.is_cpu && base_.x_rows == 1 && groups > 1 && l.turns >= kManyTurns;
        const double score = even + ((groups == 1) == one ? 0.02 : 0) - (shares ? 0.1 : 0) +
                             (!four  ? 0
                              : many ? 0.05
                                     : -0.02) -
                             (l.threads() * divide_up(count, units()) < kFewThreads ? 0.1 : 0);
        if (score > score_) {
            score_ = score;
            best_ = l;
        }
    }

    // Slots and turns for that many rows of a workgroup.
    void deal(ProjectionLaunch &l, uint32_t wanted, uint32_t most_threads) const {
        most_threads =
            std::min({most_threads, device_.max_workgroup_invocations, device_.is_cpu ? kCpuThreads : kThreads});
        l.abreast = std::max(1u, std::min(piece_slices_, most_threads / l.lanes));
        l.abreast = divide_up(piece_slices_, divide_up(piece_slices_, l.abreast)); // evenly
        const uint32_t most_slots = std::max(1u, most_threads / (l.abreast * l.lanes));
        l.turns = divide_up(wanted, int64_t(most_slots) * l.rows);
        l.slots = divide_up(wanted, int64_t(l.turns) * l.rows);
        fill_subgroups(l, most_slots);
    }

    // How many times as many registers codes take as those of 4 bits.
    uint32_t width() const { return shape_.bits > 4 ? 2 : 1; }

    uint32_t units() const { return std::max(1u, device_.compute_units); }

    // Rounded up to whole subgroups, as far as slots can be added.
    void fill_subgroups(ProjectionLaunch &l, uint32_t most_slots) const {
        while (l.threads() % device_.subgroup_size != 0 && l.slots < most_slots) {
            l.slots++;
        }
    }

    const DeviceTraits &device_;
    const ProjectionShape &shape_;
    ProjectionLaunch base_{}, best_{};
    uint32_t piece_slices_ = 1;
    uint64_t spare_ = 0;
    double score_ = -1;
};

} // namespace

// The number that leaves the fewest lanes without a unit, and of several such numbers the largest. Whole spans are
// handled by neighbouring threads of each workgroup, four to a unit.
uint32_t slice_lanes(const DeviceTraits &device, int64_t units, uint32_t span) {
    uint32_t most = device.subgroup_arithmetic ? std::min(device.subgroup_size, 32u) : device.is_cpu ? 8 : 32;
    uint32_t best = most;
    for (uint32_t lanes = most; lanes >= std::max(8u, 4 * span); lanes /= 2) {
        if (divide_up(units, lanes) * lanes < divide_up(units, best) * best) {
            best = lanes;
        }
    }
    return best;
}

ProjectionLaunch plan_projection(const DeviceTraits &device, const ProjectionShape &shape) {
    return Planner(device, shape).best();
}

} // namespace kpx
