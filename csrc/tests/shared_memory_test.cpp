// What kernels declare of shared memory on devices that have as little as Vulkan allows. The sizes repeat what the
// kernels declare: with a kernel's declarations, change them here, too.
#include <cstring>

#include "ops/gen_ops.hpp"
#include "ops/matvec.hpp"
#include "ops/tiles.hpp"
#include "recorded_lowering.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kLeastSharedBytes = 16 << 10;

uint32_t tile_bytes(const kpx::Tiles &t) { // of quantized_matmul_tiled, which has the offsets of rows besides
    const uint32_t quads = t.large ? 2 : 1, depth = 32 / quads;
    return depth * ((t.threads_m + t.threads_n) * quads + 2) * 16 + t.threads_m * 4 * quads * 4;
}

uint32_t staged_bytes(const kpx::Matvec &v) { // of quantized_matmul_vec, which has sums of units besides
    return v.rows * v.chunk * 4 + v.rows * v.chunk / 32 * 4 + 256 * 4;
}

uint32_t paged_bytes(const RecordedDispatch &d) {
    kpx::spec::paged_sdpa s;
    std::memcpy(&s, d.spec.data(), sizeof s);
    const uint32_t slots = s.threads / s.lanes, stored = s.heads % 2 != 0 || s.v_quads > 1 ? 1 : 2;
    return slots * stored * 256 * 4 + s.heads * slots * 8 + s.heads * 16 * 8 + 4 + 256 * 4;
}

bool is_missing(const Device &device, const char *kernel) {
    const std::vector<kpx_variant> all = variants_of(device, kernel);
    return std::all_of(all.begin(), all.end(), [](const kpx_variant &v) { return v.state == KPX_VARIANT_MISSING; });
}

} // namespace

TEST(products_fit_the_least_shared_memory) {
    RecordedLowering lowering;
    for (const uint32_t bytes : {kLeastSharedBytes, 32768u}) {
        lowering.traits.max_shared_bytes = bytes;
        for (const bool is_cpu : {false, true}) {
            lowering.traits.is_cpu = is_cpu;
            for (const int64_t m : {1, 2, 3, 8, 17, 64, 4096}) {
                for (const int64_t n : {1, 64, 8192}) {
                    CHECK(tile_bytes(kpx::plan_tiles(lowering.traits, m, n, 1)) <= bytes);
                    CHECK(staged_bytes(kpx::plan_matvec(lowering.traits, m, 100000, n)) <= bytes);
                }
            }
        }
    }
}

TEST(attention_over_pages_fits_the_least_shared_memory) {
    for (const bool subgroups : {false, true}) {
        for (const int64_t group : {1, 2, 3, 8}) {
            for (const int64_t d : {64, 128, 512}) {
                RecordedLowering lowering;
                lowering.traits.max_shared_bytes = kLeastSharedBytes;
                lowering.traits.subgroup_arithmetic = subgroups;
                const kpx::Array q = RecordedLowering::array(DT_FLOAT32, {4, 2 * group, d}),
                                 pages = RecordedLowering::array(DT_FLOAT16, {30, 2, 16, d}),
                                 table = RecordedLowering::array(DT_INT32, {2, 16}),
                                 numbers = RecordedLowering::array(DT_INT32, {4});
                const kpx::Array arrays[] = {q, pages, pages, table, numbers, numbers, q};
                kpx::lower_paged_sdpa(lowering, kpx::PagedSDPACall(arrays, 7, kpx::PagedSDPAOp{1, 0}));
                CHECK(lowering.dispatches.back().kernel == kpx::spec::paged_sdpa::kKernel);
                CHECK(paged_bytes(lowering.dispatches.back()) <= kLeastSharedBytes);
            }
        }
    }
}

TEST(kernels_that_declare_more_need_more_shared_memory) {
    kpx_device_options options{};
    options.masked = "shared_memory";
    const Device usual = open_device(), least = open_device(options);
    for (const char *kernel : {"sdpa_tiled", "sample"}) {
        CHECK(!is_missing(usual, kernel) && is_missing(least, kernel));
    }
    CHECK(!is_missing(least, "matmul_tiled") && !is_missing(least, "sdpa"));
}
