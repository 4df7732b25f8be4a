// The kernels of a region are built once its passes have run: only those that it needs, and others in place of what the
// driver refuses.
#include <atomic>
#include <cmath>

#include "failing.hpp"
#include "gen_kernels.hpp"
#include "layer.hpp"

namespace {

PFN_vkCreateComputePipelines create;
std::atomic<int> built;

VkResult create_and_count(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
                          const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    built++;
    return create(device, cache, n, infos, callbacks, out);
}

VkResult refuse_projections(VkDevice device, VkPipelineCache cache, uint32_t n,
                            const VkComputePipelineCreateInfo *infos, const VkAllocationCallbacks *callbacks,
                            VkPipeline *out) {
    const VkSpecializationInfo *info = infos->stage.pSpecializationInfo;
    const bool is_projection = info->mapEntryCount == sizeof(kpx::spec::projection) / sizeof(uint32_t);
    return is_projection ? VK_ERROR_INVALID_SHADER_NV : create(device, cache, n, infos, callbacks, out);
}

VkResult refuse_all(VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *,
                    const VkAllocationCallbacks *, VkPipeline *) {
    return VK_ERROR_INVALID_SHADER_NV;
}

VkResult no_memory(VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *,
                   const VkAllocationCallbacks *, VkPipeline *) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

// A norm and a product, which are one dispatch where they are fused.
struct Normed {
    Layer layer;
    Tensor x, gain, out;
    Matrix matrix;

    explicit Normed(const Device &device)
        : layer(device, nullptr), x(layer.random_row(256)), gain(layer.random(DT_FLOAT32, {256}, 2)),
          out(layer.row(24)), matrix(layer.matrix(24, 256)) {
        create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
    }
    void capture() {
        begin_capture(layer.stream);
        const Tensor h = layer.row(256);
        layer.norm(x, &gain, h);
        layer.product(h, matrix, out);
    }
    std::vector<float> run(const Region &region) {
        replay(layer.stream, region);
        return layer.read(out);
    }
};

bool nearly_equal(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
               return std::abs(x - y) <= 1e-4f * (1 + std::abs(y));
           });
}

} // namespace

TEST(a_region_builds_only_the_kernels_that_it_needs) {
    const Device device = open_as_gpu();
    Normed work(device);
    FAILING(vkCreateComputePipelines, create_and_count);
    built = 0;
    work.capture();
    CHECK(built == 0);
    const Region region = end_capture(work.layer.stream);
    CHECK(built == 1 && stats_of(region).dispatches == 1);
    work.capture();
    const Region again = end_capture(work.layer.stream);
    CHECK(built == 1 && work.run(region) == work.run(again));
}

// The norm and the product that one kernel would do are two dispatches again.
TEST(a_fused_kernel_that_the_driver_refuses_gives_way_to_those_of_the_ops) {
    const Device plain = open_as_gpu(), device = open_as_gpu();
    Normed want(plain), got(device);
    want.capture();
    const Region fused = end_capture(want.layer.stream);
    for (int time = 0; time < 2; time++) { // the second time, it is known
        FAILING(vkCreateComputePipelines, refuse_projections);
        got.capture();
        const Region region = end_capture(got.layer.stream);
        CHECK(stats_of(region).dispatches >= 2 && stats_of(device).refusals > 0);
        CHECK(nearly_equal(got.run(region), want.run(fused)));
    }
}

TEST(a_capture_whose_kernels_cannot_be_built_has_ended) {
    kpx_error err{};
    kpx_region *region = nullptr;
    const Device device = open_as_gpu(), other = open_as_gpu();
    Normed work(device), refused(other);
    {
        FAILING(vkCreateComputePipelines, no_memory);
        work.capture();
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_capture_end(work.layer.stream.get(), &region, &err));
        refused.capture();
    }
    CHECK(stats_of(device).refusals == 0);
    work.capture();
    const Region made = end_capture(work.layer.stream);
    {
        FAILING(vkCreateComputePipelines, refuse_all);
        REQUIRE_CODE(KPX_UNSUPPORTED, kpx_capture_end(refused.layer.stream.get(), &region, &err));
    }
    CHECK(strstr(err.message, "rms_norm") != nullptr);
    const std::vector<float> y = work.run(made);
    CHECK(std::any_of(y.begin(), y.end(), [](float v) { return v != 0; }));
}
