// How quantized products of many rows are launched on devices with matrix units.
#include "ops/gen_ops.hpp"
#include "recorded_lowering.hpp"
#include "test.hpp"

using kpx::Array;

namespace {

struct Product {
    uint32_t x = DT_BFLOAT16;
    int64_t rows = 512, n = 8192, k = 4096;
    uint32_t mode = QUANTIZATION_AFFINE, bits = 4, group_size = 128;
    uint32_t scales = DT_BFLOAT16;
};

// The dispatches of a product.
std::vector<RecordedDispatch> dispatches(const Product &p, RecordedLowering &&lowering = {}) {
    const bool affine = p.mode == QUANTIZATION_AFFINE;
    const Array scales = RecordedLowering::array(affine ? p.scales : DT_UINT8, {p.n, p.k / p.group_size});
    const Array x = RecordedLowering::array(p.x, {p.rows, p.k}), y = RecordedLowering::array(p.x, {p.rows, p.n});
    const Array w = RecordedLowering::array(DT_UINT32, {p.n, p.k * p.bits / 32});
    const Array arrays[] = {x, w, scales, affine ? scales : Array{}, y};
    kpx::QuantizedMatMulOp op{};
    op.mode = p.mode;
    op.bits = p.bits;
    op.group_size = p.group_size;
    op.transpose = 1;
    lowering.words.insert("khr8");
    kpx::lower_quantized_matmul(lowering, kpx::QuantizedMatMulCall(arrays, 5, op));
    return lowering.dispatches;
}

std::string kernel(const Product &p) {
    return dispatches(p).at(1).kernel;
}

// How quantized_matmul_fragments is launched, by its constants.
struct Launch {
    uint32_t splits, row_tiles, waves_m, waves_n, workgroups;
};

Launch launch(const Product &p) {
    const std::vector<RecordedDispatch> made = dispatches(p);
    const RecordedDispatch &product = made.at(1);
    CHECK(product.kernel == kpx::spec::quantized_matmul_fragments::kKernel);
    const auto &spec = product.spec; // in the order of constant ids
    CHECK(made.size() == (spec[6] == 1 ? 2u : 3u) && product.grid.z == spec[6]);
    return {spec[6], spec[9], spec[11], spec[12], product.grid.x * product.grid.y};
}

const char *const kFragments = kpx::spec::quantized_matmul_fragments::kKernel;
const char *const kBytes = kpx::spec::quantized_matmul_bytes_coopmat::kKernel;
const char *const kTiles = kpx::spec::quantized_matmul_coopmat::kKernel;

} // namespace

TEST(products_of_many_rows_take_the_kernel_that_is_fastest) {
    CHECK(kernel({}) == kFragments);
    CHECK(kernel({.x = DT_FLOAT32}) == kBytes);
    CHECK(kernel({.rows = 128}) == kBytes);          // few rows
    CHECK(kernel({.n = 1024, .k = 2048}) == kBytes); // little to do
    CHECK(kernel({.group_size = 32}) == kFragments);
    CHECK(kernel({.bits = 8}) == kBytes);
    CHECK(kernel({.scales = DT_FLOAT16}) == kBytes);
    CHECK(kernel({.group_size = 32, .scales = DT_FLOAT16}) == kTiles);
    for (const uint32_t x : {DT_FLOAT32, DT_BFLOAT16}) {
        CHECK(kernel({.x = x, .rows = 65, .n = 64, .mode = QUANTIZATION_MXFP4, .group_size = 32}) == kFragments);
        CHECK(kernel({.x = x, .rows = 65, .n = 63, .mode = QUANTIZATION_MXFP4, .group_size = 32}) == kTiles);
        CHECK(kernel({.x = x, .rows = 17, .mode = QUANTIZATION_NVFP4, .group_size = 16}) == kFragments);
        CHECK(kernel({.x = x, .rows = 17, .k = 4112, .mode = QUANTIZATION_NVFP4, .group_size = 16}) == kTiles);
        CHECK(kernel({.x = x, .rows = 17, .mode = QUANTIZATION_MXFP8, .bits = 8, .group_size = 32}) == kFragments);
    }
}

// What is prepared of x takes four bytes an element, so a tensor may be too small for it although it holds x.
TEST(products_whose_prepared_rows_would_be_too_large_take_none) {
    const int64_t rows = (int64_t(1) << 30) / 2 / 4096; // x has the most bytes that a tensor has, RecordedLowering's
    const std::vector<RecordedDispatch> made = dispatches({.rows = rows, .n = 64, .bits = 8, .group_size = 64});
    CHECK(made.size() == 1 && made[0].kernel == kpx::spec::quantized_matmul_tiled_large::kKernel);
    CHECK(kernel({.rows = rows / 4, .n = 64, .bits = 8, .group_size = 64}) == kBytes);
}

// Subgroups that share weights, unless too many of them would have no rows; and workgroups that share columns where
// there are few tiles.
TEST(launches_of_fragment_matrices_follow_rows_and_tiles) {
    const Product product{.mode = QUANTIZATION_MXFP4, .group_size = 32};
    const auto of = [&](int64_t rows, int64_t n = 8192) {
        Product p = product;
        p.rows = rows;
        p.n = n;
        return launch(p);
    };
    const Launch many = of(512), some = of(320), few = of(80);
    CHECK(many.row_tiles == 4 && many.waves_m == 4 && many.waves_n == 1 && many.workgroups == 2 * 128);
    CHECK(some.waves_m == 2 && some.waves_n == 2 && some.workgroups == 3 * 64);
    CHECK(few.waves_m == 2 && few.workgroups == 64);
    CHECK(many.splits == 1 && few.splits > 1 && of(512, 1024).splits > 1);
    CHECK(of(512, 1026).splits == 1); // sums are stored by fours
    for (const int64_t rows : {20, 64}) {
        const Launch own = launch({.rows = rows, .mode = QUANTIZATION_NVFP4, .group_size = 16});
        CHECK(own.row_tiles == (rows == 20 ? 2 : 4) && own.waves_m == 1 && own.waves_n == 2 && own.workgroups == 64);
    }
}

TEST(devices_without_room_for_fragment_matrices_take_tiles) {
    const Product product{.mode = QUANTIZATION_MXFP4, .group_size = 32};
    RecordedLowering little, none;
    little.traits.max_shared_bytes = 32767;
    none.traits.fragment_codes = false;
    CHECK(dispatches(product, std::move(little)).at(1).kernel == kTiles);
    CHECK(dispatches(product, std::move(none)).at(1).kernel == kTiles);
}
