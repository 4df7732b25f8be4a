// Dispatches of a region that wait for results themselves instead of at barriers.
#include <cmath>

#include "failing.hpp"
#include "gen_kernels.hpp"
#include "layer.hpp"

namespace {

constexpr uint64_t kHang = 60'000'000'000; // a test that waits for what never comes fails

Device open_overlapping(const char *disabled_passes = nullptr, const char *disabled = nullptr) {
    setenv("KOMPUTE_GO_FUSION_ON_CPU", "1", 1); // until the test ends
    kpx_device_options options{};
    options.overlaps = 1;
    options.hang_ns = kHang;
    options.disabled_passes = disabled_passes;
    options.disabled = disabled;
    Device device = open_device(options);
    CHECK(stats_of(device).overlaps == 1);
    return device;
}

// Gated blocks of a decoder layer: norm, gate and up, SiLU, down and residual. Each becomes two dispatches.
std::vector<Tensor> gated_blocks(Layer &l, Tensor x, int64_t width, int blocks) {
    const int64_t rows = x.array.shape[1], cols = x.array.shape[2];
    for (int i = 0; i < blocks; i++) {
        const Matrix gate = l.matrix(width, cols), up = l.matrix(width, cols), down = l.matrix(cols, width);
        Tensor normed = l.row(cols, rows), g = l.row(width, rows), u = l.row(width, rows), s = l.row(width, rows),
               d = l.row(cols, rows), y = l.row(cols, rows);
        const Tensor gains = l.random(DT_FLOAT32, {cols}, 1);
        l.norm(x, &gains, normed);
        l.product(normed, gate, g);
        l.product(normed, up, u);
        l.silu_mul(g, u, s);
        l.product(s, down, d);
        l.add(x, d, y);
        x = std::move(y);
    }
    std::vector<Tensor> results;
    results.push_back(std::move(x));
    return results;
}

struct Replayed {
    std::vector<std::vector<uint32_t>> results; // after each replay
    kpx_region_stats stats;
};

// What the function captures, replayed with three different x of rows of n numbers, and not always by the same stream.
using Blocks = std::function<std::vector<Tensor>(Layer &, Tensor x)>;
Replayed replayed(const Device &device, int64_t n, const Blocks &build, int64_t rows = 1) {
    Layer layer(device, nullptr);
    Tensor x = layer.random_row(n, rows);
    kpx_array view = x.array;
    const Storage kept = std::move(x.buffer);
    begin_capture(layer.stream);
    const std::vector<Tensor> results = build(layer, {nullptr, view});
    const Region region = end_capture(layer.stream);
    const Stream other = new_stream(device);
    Replayed out{{}, stats_of(region)};
    for (uint32_t times : {1u, 3u, 1u}) {
        std::vector<uint32_t> words;
        for (int64_t i = 0; i < n * rows; i++) {
            const float v = float((i * 37 + times * 11) % 64) / 32 - 1;
            uint32_t word;
            memcpy(&word, &v, sizeof word);
            words.push_back(word);
        }
        upload(layer.stream, kept, words);
        replay(times == 1 ? layer.stream : other, region, times); // each begins without the results of the one before
        for (const Tensor &result : results) {
            out.results.push_back(download(layer.stream, result.buffer, size_t(result.size())));
        }
    }
    return out;
}

PFN_vkCreateComputePipelines create;
constexpr uint32_t kProjectionConstants = sizeof(kpx::spec::projection) / sizeof(uint32_t);
// Refuses kernels that await or give results: their last constant, OVERLAP, is not 0.
VkResult refuse_overlap(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
                        const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    const VkSpecializationInfo *info = infos->stage.pSpecializationInfo;
    if (info != nullptr && info->mapEntryCount == kProjectionConstants &&
        static_cast<const uint32_t *>(info->pData)[kProjectionConstants - 1] != 0) {
        return VK_ERROR_INVALID_SHADER_NV;
    }
    return create(device, cache, n, infos, callbacks, out);
}

PFN_vkCmdDispatch dispatch;
int dispatched;
bool drops_first;
void without_the_first(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
    if (dispatched++ > 0 || !drops_first) {
        dispatch(commands, x, y, z);
    }
}

} // namespace

TEST(dispatches_that_wait_by_themselves_need_no_barrier) {
    const Device plain = open_as_gpu(), device = open_overlapping();
    const Blocks build = [](Layer &l, Tensor x) { return gated_blocks(l, std::move(x), 256, 3); };
    const Replayed want = replayed(plain, 128, build), got = replayed(device, 128, build);
    CHECK(got.results == want.results && got.results[0] != got.results[1]);
    CHECK(want.stats.dispatches == 6 && want.stats.overlaps == 0);
    // They read little, so there is a barrier after every three; the first one's x is the caller's.
    CHECK(got.stats.dispatches == 6 && got.stats.overlaps == 4);
    CHECK(got.stats.transient_bytes > want.stats.transient_bytes);
}

TEST(results_have_memory_of_their_own_without_a_plan_too) {
    const Device plain = open_as_gpu(), device = open_overlapping("memory_plan");
    const Blocks build = [](Layer &l, Tensor x) { return gated_blocks(l, std::move(x), 256, 2); };
    const Replayed want = replayed(plain, 128, build), got = replayed(device, 128, build);
    CHECK(got.results == want.results && got.stats.overlaps > 0);
}

TEST(dispatches_that_read_much_all_overlap) {
    if (!is_cpu_driver()) {
        SKIP("how much is much depends on the device");
    }
    const Device plain = open_as_gpu(), device = open_overlapping();
    const Blocks build = [](Layer &l, Tensor x) { return gated_blocks(l, std::move(x), 4096, 2); };
    const Replayed want = replayed(plain, 1024, build), got = replayed(device, 1024, build);
    CHECK(got.results == want.results);
    CHECK(got.stats.dispatches == 4 && got.stats.overlaps == 3);
}

// With x in registers, and with columns divided among workgroups.
TEST(several_rows_that_wait_need_no_barrier) {
    const char *held = "projection_held.narrow_subgroup_khr8,projection_held.narrow_subgroup_dot8";
    for (const char *disabled : {"", held}) {
        setenv("KOMPUTE_GO_FUSION_ON_CPU", "1", 1);
        kpx_device_options options{};
        options.disabled = disabled;
        const Device plain = open_device(options), device = open_overlapping(nullptr, disabled);
        const Blocks build = [](Layer &l, Tensor x) { return gated_blocks(l, std::move(x), 256, 2); };
        const Replayed want = replayed(plain, 128, build, 5), got = replayed(device, 128, build, 5);
        CHECK(got.results == want.results && got.results[0] != got.results[1]);
        CHECK(want.stats.overlaps == 0 && got.stats.dispatches == want.stats.dispatches);
        if (is_cpu_driver()) { // elsewhere, which kernels take so little work depends on the device
            // There are barriers before what reads sums of parts or the caller's x.
            CHECK(got.stats.overlaps >= 2 && got.stats.dispatches == (disabled == held ? 8 : 4));
        }
    }
}

// A NaN may have the very bits that say that a result is not there yet.
TEST(nan_of_any_bits_is_a_result) {
    const Device device = open_overlapping();
    for (int64_t rows : {1, 3}) {
        const auto build = [rows](Layer &l, Tensor x) {
            Tensor nan = l.row(128, rows), product = l.row(128, rows), sum = l.row(128, rows);
            upload(l.stream, nan.buffer, std::vector<uint32_t>(size_t(128 * rows), 0xffffffff));
            const Matrix m = l.matrix(128, 256);
            l.product(x, m, product);
            l.add(nan, product, sum);
            return gated_blocks(l, std::move(sum), 256, 1);
        };
        const Replayed got = replayed(device, 256, build, rows);
        CHECK(got.stats.overlaps == 2);
        for (uint32_t word : got.results[0]) {
            float v;
            memcpy(&v, &word, sizeof v);
            CHECK(std::isnan(v));
        }
    }
}

TEST(what_a_caller_sees_is_behind_barriers) {
    const Device device = open_overlapping();
    const Replayed got = replayed(device, 128, [](Layer &l, Tensor x) {
        Tensor product = l.row(128), next = l.row(128);
        const Matrix first = l.matrix(128, 128), second = l.matrix(128, 128);
        l.product(x, first, product);
        l.product(product, second, next);
        std::vector<Tensor> results;
        results.push_back(std::move(next));
        results.push_back(std::move(product));
        return results;
    });
    CHECK(got.stats.overlaps == 0);
}

TEST(where_the_driver_refuses_kernels_that_wait_barriers_stay) {
    const Device plain = open_as_gpu(), device = open_overlapping();
    for (int64_t width : {256, 384}) {
        const Blocks build = [width](Layer &l, Tensor x) { return gated_blocks(l, std::move(x), width, 2); };
        const Replayed want = replayed(plain, 128, build);
        create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
        FAILING(vkCreateComputePipelines, refuse_overlap);
        const Replayed got = replayed(device, 128, build);
        CHECK(got.results == want.results);
        CHECK(got.stats.overlaps == 0 && got.stats.barriers == want.stats.barriers);
        CHECK(stats_of(device).refusals == 0 && stats_of(device).overlaps == 0);
    }
}

// Opening a device runs three dispatches that wait for each other. Without the first one, the second gives up.
TEST(a_device_that_fails_the_check_keeps_its_barriers) {
    const Device before = open_device(); // the first one loads the driver's functions
    dispatch = VULKAN_HPP_DEFAULT_DISPATCHER.vkCmdDispatch;
    kpx_device_options options{};
    options.overlaps = 1;
    options.masked = "coopmat"; // which have a check of their own
    FAILING(vkCmdDispatch, without_the_first);
    for (bool drops : {false, true}) {
        dispatched = 0;
        drops_first = drops;
        const Device device = open_device(options);
        CHECK(dispatched == 3 && stats_of(device).overlaps == !drops);
    }
}

TEST(a_check_that_cannot_run_is_not_passed) {
    kpx_device_options options{};
    options.overlaps = 1;
    options.disabled = "overlap_check.base";
    CHECK(stats_of(open_device(options)).overlaps == 0);
}
