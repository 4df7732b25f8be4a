// The shared memory that the projection kernel declares, in each of its variants.
#include <algorithm>
#include <array>
#include <cstring>

#include "ops/gen_ops.hpp"
#include "ops/projection_held.hpp"
#include "ops/projection_launch.hpp"
#include "recorded_lowering.hpp"
#include "test.hpp"

using kpx::Array;

namespace {

// The constants of a projection of a row of cols elements by a matrix of 4-bit codes in bfloat16.
kpx::spec::projection projected(RecordedLowering &lowering, int64_t cols, uint32_t group = 64) {
    const auto array = RecordedLowering::array;
    using Call = kpx::ProjectionCall;
    std::array<Array, std::size(Call::kOperands)> arrays{array(DT_BFLOAT16, {1, cols})};
    arrays[Call::kW] = array(DT_UINT32, {4096, cols / 8});
    arrays[Call::kScales] = arrays[Call::kBiases] = array(DT_BFLOAT16, {4096, cols / group});
    arrays[Call::kOut] = array(DT_BFLOAT16, {1, 4096});
    const kpx::ProjectionOp op{
        .group_size = group, .bits = 4, .norm = 0, .epilogue = PROJECTION_STORE, .eps = 0, .dtype = 0};
    kpx::lower_projection(lowering, Call(arrays.data(), uint32_t(arrays.size()), op));
    kpx::spec::projection spec;
    const std::vector<uint32_t> &words = lowering.dispatches.front().spec;
    CHECK(words.size() * sizeof(uint32_t) == sizeof spec);
    memcpy(&spec, words.data(), sizeof spec);
    return spec;
}

// The declarations of shaders/projection.comp: x and its sums, partial results, and without subgroups those of their
// lanes.
uint64_t shared_bytes(const kpx::spec::projection &spec, bool integers, bool subgroup) {
    const uint64_t units = spec.piece / 32, slices = (spec.cols / 32 + spec.lanes - 1) / spec.lanes;
    const uint64_t x = spec.x_rows * units * ((integers ? 96 : 128) + (spec.span > 1 ? 24 : 8));
    const uint64_t parts = spec.x_rows * slices * spec.slots * spec.turns * spec.rows * 4;
    return x + parts + (subgroup ? 0 : 4 * spec.threads);
}

kpx::ProjectionShape shape_of_integers(int64_t rows, int64_t cols, int64_t x_rows, uint32_t paired, uint32_t span) {
    return {.rows = rows,
            .cols = cols,
            .x_rows = x_rows,
            .paired = paired,
            .bits = 4,
            .integers = true,
            .span = span,
            .norm = true,
            .arg_max = false,
            .subgroup = true,
            .mended = false};
}

// The spans that rows of that many columns may have.
std::vector<uint32_t> spans_of(int64_t cols) {
    return cols % 128 == 0 ? std::vector<uint32_t>{1, 2, 4} : std::vector<uint32_t>{1};
}

} // namespace

TEST(a_projection_declares_the_shared_memory_that_its_variant_needs) {
    for (int64_t cols : {2560, 9728, 11776, 12288, 14336}) {
        for (uint32_t bytes : {16384u, 32768u, 49152u}) {
            for (const std::set<std::string_view> &words :
                 {std::set<std::string_view>{"narrow", "subgroup", "dot8"}, {"narrow", "subgroup"}, {"narrow"}}) {
                RecordedLowering lowering;
                lowering.traits.max_shared_bytes = bytes;
                lowering.words = words;
                const kpx::spec::projection spec = projected(lowering, cols, cols % 3 == 0 ? 32 : 128);
                CHECK(spec.span == (words.count("dot8") == 0 || cols % 3 == 0 ? 1u : 4u));
                CHECK(shared_bytes(spec, words.count("dot8") != 0, words.count("subgroup") != 0) <= bytes);
            }
        }
    }
}

TEST(a_row_of_integers_stays_in_one_piece_where_floats_do_not) {
    RecordedLowering lowering;
    CHECK(projected(lowering, 12288).piece >= 12288);
    lowering = RecordedLowering();
    lowering.words.erase("dot8");
    CHECK(projected(lowering, 12288).piece < 12288);
}

// Gate and up, and the head, of a model of 4,096 columns; and products of a few turns, which stay as they are.
TEST(workgroups_of_many_turns_have_compute_units_to_themselves_where_dispatches_overlap) {
    RecordedLowering plain, overlapping;
    plain.traits.compute_units = overlapping.traits.compute_units = 132;
    overlapping.traits.overlaps = true;
    const auto launch = [](const RecordedLowering &lowering, const kpx::ProjectionShape &shape) {
        return kpx::plan_projection(lowering.traits, shape);
    };
    for (const kpx::ProjectionShape &shape :
         {shape_of_integers(12288, 4096, 1, 2, 4), shape_of_integers(151936, 4096, 1, 1, 4)}) {
        CHECK(launch(plain, shape).threads() == 256);
        const kpx::ProjectionLaunch alone = launch(overlapping, shape);
        CHECK(alone.threads() == 640 && alone.group_rows() * 132 >= shape.rows);
    }
    const kpx::ProjectionShape few_turns = shape_of_integers(4096, 4096, 1, 1, 4);
    CHECK(launch(plain, few_turns).threads() == launch(overlapping, few_turns).threads());
    CHECK(launch(overlapping, few_turns).group_rows() * 132 < few_turns.rows);
    const kpx::ProjectionShape rows = shape_of_integers(12288, 4096, 2, 2, 4); // which do not overlap
    CHECK(launch(plain, rows).threads() == launch(overlapping, rows).threads());
    CHECK(launch(overlapping, rows).group_rows() * 132 < rows.rows);
}

// Rows of x that are not finite are gone through again for each result, so workgroups of CPU drivers have few of them.
TEST(workgroups_of_cpu_drivers_have_few_rows_of_x_that_may_not_be_finite) {
    RecordedLowering lowering;
    lowering.traits.is_cpu = true;
    lowering.traits.subgroup_size = 8;
    kpx::ProjectionShape shape = shape_of_integers(64, 16384, 4, 1, 1);
    CHECK(kpx::plan_projection(lowering.traits, shape).x_rows == 4);
    shape.mended = true;
    CHECK(kpx::plan_projection(lowering.traits, shape).x_rows == 2);
    shape.x_rows = 1;
    shape.cols = 65536;
    bool refused = false;
    try {
        kpx::plan_projection(lowering.traits, shape);
    } catch (const kpx::Error &e) {
        refused = e.code == KPX_UNSUPPORTED;
    }
    CHECK(refused);
    shape.mended = false;
    CHECK(kpx::plan_projection(lowering.traits, shape).x_rows == 1);
}

// Launches with x in registers fit, too, and reach all columns and rows. Dot products keep x in shared memory, which
// not every launch has room for.
TEST(launches_with_x_in_registers_fit) {
    RecordedLowering lowering;
    for (bool matrices : {false, true}) {
        for (int64_t cols : {32, 352, 1024, 2560, 9728, 12288}) {
            for (int64_t rows : {32, 1024, 9728}) {
                for (int64_t x_rows : {5, 8, 16, 64}) {
                    for (uint32_t span : spans_of(cols)) {
                        const uint32_t paired = span == 2 ? 2 : 1 + uint32_t(rows / 1024 % 2);
                        const kpx::ProjectionShape shape = shape_of_integers(rows, cols, x_rows, paired, span);
                        const kpx::HeldTiles t = kpx::plan_held_tiles(lowering.traits, shape, 0, matrices);
                        if (t.lanes == 0) {
                            CHECK(!matrices && kpx::slice_lanes(lowering.traits, cols / 32, span) == 32);
                            continue;
                        }
                        CHECK(t.fits(lowering.traits, 0));
                        CHECK(t.chunk % span == 0 && t.lanes >= 4 * span && t.teams % (t.lanes / t.chunk) == 0);
                        CHECK(paired == 1 || t.tiles == 2);
                        CHECK(int64_t(t.turns) * t.groups * t.turn_rows() >= rows);
                        CHECK(int64_t(t.rounds) * t.teams * t.chunk * 32 >= cols);
                    }
                }
            }
        }
    }
}

// Parts are slices or halves of them, and fit into shared memory.
TEST(launches_of_parts_fit) {
    for (uint32_t bytes : {32768u, 49152u}) {
        RecordedLowering lowering;
        lowering.traits.max_shared_bytes = bytes;
        for (int64_t cols : {32, 352, 1024, 2560, 9728, 12288}) {
            for (int64_t tiles : {1, 63, 1216, 9496}) {
                for (int64_t x_rows : {5, 8, 16, 64}) {
                    const uint32_t span = spans_of(cols).back();
                    const kpx::ProjectionShape shape = shape_of_integers(16 * tiles, cols, x_rows, 1, span);
                    const kpx::PartTiles t =
                        kpx::plan_part_tiles(lowering.traits, shape, {tiles, 1, tiles / 2 + 1}, 32);
                    if (t.teams == 0) {
                        CHECK(bytes == 32768 && x_rows > 8); // x of 16 rows and four teams do not fit
                        continue;
                    }
                    CHECK(t.lanes == kpx::slice_lanes(lowering.traits, cols / 32, span) && t.lanes >= 4 * span);
                    CHECK((t.lanes == t.part || t.lanes == 2 * t.part) && t.part <= 16);
                    CHECK(t.side == (x_rows <= 8 ? 8u : 16u));
                    CHECK(t.turns > 0 && t.turns <= (tiles + t.teams - 1) / t.teams);
                    CHECK(t.shared_bytes(32) <= bytes);
                }
            }
        }
    }
}

// Matrices made in registers: digits of x, scales and biases fit into shared memory.
TEST(launches_of_fragments_fit) {
    for (uint32_t bytes : {32768u, 49152u}) {
        RecordedLowering lowering;
        lowering.traits.max_shared_bytes = bytes;
        for (const auto &[side, group] : {std::pair(16u, 32u), {16u, 64u}, {16u, 128u}, {8u, 128u}}) {
            for (int64_t tiles : {2, 63, 1216, 9496}) {
                const kpx::FragmentTiles t =
                    kpx::plan_fragments(lowering.traits, side, group, 5, {tiles, 2, tiles / 2 + 1});
                CHECK((t.teams == 0) == (bytes == 32768 && side == 16)); // which digits alone take
                CHECK(t.teams == 0 || (t.turns > 0 && (t.turns - 1) * t.teams * 2 < tiles));
                CHECK(t.teams == 0 || t.shared_bytes(group) <= bytes);
            }
        }
    }
}

// Tiles of bytes fit into shared memory, whole slices into a round, and pairs of tiles into a workgroup.
TEST(launches_of_byte_tiles_fit) {
    for (uint32_t bytes : {32768u, 49152u}) {
        RecordedLowering lowering;
        lowering.traits.max_shared_bytes = bytes;
        for (int64_t cols : {32, 352, 1024, 2560, 9728, 12288}) {
            for (int64_t rows : {1, 1000, 9728, 151936}) {
                for (int64_t x_rows : {5, 8, 16, 64}) {
                    for (uint32_t paired : {1u, 2u}) {
                        const uint32_t span = spans_of(cols).back();
                        const kpx::ProjectionShape shape = shape_of_integers(rows, cols, x_rows, paired, span);
                        const uint32_t group = cols % 64 == 0 ? 32 : 16;
                        const kpx::ByteTiles t = kpx::plan_byte_tiles(lowering.traits, shape, group);
                        CHECK(t.fits(lowering.traits, group));
                        CHECK(t.run == 1 || t.run == std::min(t.lanes, 16u) / 4);
                        CHECK(t.abreast % (t.lanes / 4 / t.run) == 0);
                        CHECK(paired == 1 || t.tiles == 2);
                        CHECK(t.side == (x_rows <= 8 ? 8u : 16u));
                        CHECK(bytes == 32768 || t.x_blocks == (x_rows > t.side ? 2u : 1u));
                    }
                }
            }
        }
    }
}
