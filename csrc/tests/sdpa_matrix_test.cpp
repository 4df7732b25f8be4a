// How attention of many queries is launched on devices with matrix units.
#include "ops/gen_ops.hpp"
#include "recorded_lowering.hpp"
#include "test.hpp"

using kpx::Array;

namespace {

// The dispatch of attention itself, of 32 query heads and 8 key heads of 128 elements.
RecordedDispatch attention(RecordedLowering &lowering, uint32_t dtype, uint32_t cache_dtype, int64_t queries,
                           int64_t keys) {
    const Array q = RecordedLowering::array(dtype, {1, 32, queries, 128});
    const Array k = RecordedLowering::array(cache_dtype, {1, 8, keys, 128});
    const Array arrays[] = {q, k, k, {}, {}, q};
    kpx::SDPAOp op{};
    op.scale = 1;
    kpx::lower_sdpa(lowering, kpx::SDPACall(arrays, 6, op));
    CHECK(lowering.dispatches.size() >= 4 && lowering.dispatches[0].kernel == "sdpa_split");
    return lowering.dispatches[3];
}

struct Launch {
    uint32_t row_tiles, q_held, groups;
};

// Returns how sdpa_fragments is launched, by its last two constants.
Launch launch(uint32_t dtype, int64_t queries, uint32_t shared_bytes = 49152) {
    RecordedLowering lowering;
    lowering.traits.max_shared_bytes = shared_bytes;
    const RecordedDispatch made = attention(lowering, dtype, dtype, queries, 4096);
    CHECK(made.kernel == kpx::spec::sdpa_fragments::kKernel);
    const size_t n = made.spec.size();
    return {made.spec[n - 2], made.spec[n - 1], made.grid.x * made.grid.y};
}

} // namespace

// With two tiles of rows, shared memory holds three of the four tiles that q has in float32.
TEST(subgroups_have_two_tiles_of_rows_where_there_are_many) {
    for (const uint32_t dtype : {DT_FLOAT32, DT_BFLOAT16}) {
        const uint32_t parts = dtype == DT_FLOAT32 ? 2 : 1;
        const Launch few = launch(dtype, 1024), many = launch(dtype, 1200);
        CHECK(few.row_tiles == 1 && few.q_held == parts && few.groups == 8 * 64);
        CHECK(many.row_tiles == 2 && many.q_held == (parts == 2 ? 3 : 2) && many.groups == 8 * 38);
        const Launch large = launch(dtype, 1200, 98304);
        CHECK(large.row_tiles == 2 && large.q_held == 2 * parts);
    }
    CHECK(launch(DT_BFLOAT16, 1200, 32767).row_tiles == 1);
}

TEST(devices_without_fragments_keep_scores_in_shared_memory) {
    RecordedLowering lowering;
    lowering.traits.fragments = false;
    CHECK(attention(lowering, DT_FLOAT32, DT_FLOAT32, 2048, 4096).kernel == kpx::spec::sdpa_coopmat::kKernel);
}

// Keys and values of 16 bits are one part each, but weights of float32 queries still two.
TEST(queries_of_float32_over_a_cache_of_16_bits) {
    RecordedLowering lowering;
    const RecordedDispatch made = attention(lowering, DT_FLOAT32, DT_BFLOAT16, 2048, 4096);
    CHECK(made.kernel == kpx::spec::sdpa_fragments::kKernel);
    const std::vector<uint32_t> &spec = made.spec;
    const size_t n = spec.size(); // k_steps, v_steps, lanes and has_ranges come before w_parts, row_tiles and q_held
    CHECK(spec[n - 10] == 2 && spec[n - 9] == 1 && spec[n - 8] == 1);
    CHECK(spec[n - 3] == 2 && spec[n - 2] == 2 && spec[n - 1] == 3);
}

// Two tiles of rows for each of 8 key heads are 16 workgroups, too few for 100 compute units, so 12 share their keys.
TEST(workgroups_share_the_keys_of_few_rows) {
    RecordedLowering lowering;
    const RecordedDispatch made = attention(lowering, DT_BFLOAT16, DT_BFLOAT16, 32, 8192);
    CHECK(made.kernel == kpx::spec::sdpa_fragments::kKernel && made.grid.x == 16 && made.grid.z == 12);
    CHECK(made.spec[made.spec.size() - 4] == 1); // has_ranges, before w_parts, row_tiles and q_held
    CHECK(lowering.dispatches.size() == 5 && lowering.dispatches[4].kernel == kpx::spec::sdpa_combine::kKernel);
    RecordedLowering few_keys, much_to_do;
    CHECK(attention(few_keys, DT_BFLOAT16, DT_BFLOAT16, 128, 300).grid.z == 2);
    CHECK(attention(much_to_do, DT_BFLOAT16, DT_BFLOAT16, 1024, 8192).grid.z == 1);
    CHECK(much_to_do.dispatches.size() == 4);
}

// With fewer rows than a tile, matrices are worth it only if there are many keys.
TEST(few_rows_behind_many_keys_take_matrices) {
    const auto kernel = [](int64_t queries, int64_t keys) {
        RecordedLowering lowering;
        const Array q = RecordedLowering::array(DT_FLOAT32, {1, 32, queries, 128});
        const Array k = RecordedLowering::array(DT_FLOAT32, {1, 8, keys, 128});
        const Array arrays[] = {q, k, k, {}, {}, q};
        kpx::lower_sdpa(lowering, kpx::SDPACall(arrays, 6, kpx::SDPAOp{1, 1}));
        return lowering.dispatches[0].kernel;
    };
    CHECK(kernel(8, 8192) == kpx::spec::sdpa_split::kKernel);
    CHECK(kernel(8, 1024) == kpx::spec::sdpa::kKernel);
    CHECK(kernel(2, 8192) == kpx::spec::sdpa::kKernel);
}

// Rows are padded to 32 elements, so a tensor may be too small for them although it holds the operand.
TEST(operands_whose_parts_would_be_too_large_are_not_split) {
    const auto kernel = [](int64_t batches) {
        RecordedLowering lowering;
        const Array x = RecordedLowering::array(DT_FLOAT16, {batches, 32, 32768, 8});
        const Array arrays[] = {x, x, x, {}, {}, x};
        kpx::lower_sdpa(lowering, kpx::SDPACall(arrays, 6, kpx::SDPAOp{1, 1}));
        return lowering.dispatches[0].kernel;
    };
    CHECK(kernel(4) == kpx::spec::sdpa_split::kKernel);
    CHECK(kernel(16) == kpx::spec::sdpa_tiled::kKernel); // 256 MB each, and 1 GiB in parts
}
