// Which variant of a kernel runs: the best one that is usable, the next one where the driver refuses it or the caller
// disabled it, and another kernel where there is no other variant.
#include <algorithm>
#include <cstring>

#include "failing.hpp"
#include "ops/gen_ops.hpp"
#include "test.hpp"

namespace {

PFN_vkCreateComputePipelines create;
int refused; // pipelines that will still be built
VkResult refuse_at_first(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
                         const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    return refused-- > 0 ? VK_ERROR_INVALID_SHADER_NV : create(device, cache, n, infos, callbacks, out);
}
VkResult no_memory(VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *,
                   const VkAllocationCallbacks *, VkPipeline *) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

size_t first_usable(const std::vector<kpx_variant> &variants) {
    const auto usable = [](const kpx_variant &v) { return v.state == KPX_VARIANT_USABLE; };
    return size_t(std::find_if(variants.begin(), variants.end(), usable) - variants.begin());
}

// A row of n through softmax, which has several variants on every device that has subgroups.
kpx_result softmax(const Stream &stream, const Storage &x, const Storage &y, kpx_error *err, int64_t n = 4,
                   uint32_t out_dtype = DT_FLOAT32) {
    kpx_array in = words_of(x, n, KPX_READ), out = words_of(y, n, KPX_WRITE);
    in.dtype = DT_FLOAT32;
    out.dtype = out_dtype;
    const uint32_t none = 0;
    return append_op(stream, "softmax", {in, out}, &none, 4, err);
}

void check_softmax(const Device &device, const Stream &stream) {
    kpx_error err{};
    Storage x = new_storage(device, 16), y = new_storage(device, 16);
    upload(stream, x, {0, 0, 0, 0});
    REQUIRE_OK(softmax(stream, x, y, &err));
    CHECK((download(stream, y, 4) == std::vector<uint32_t>(4, 0x3e800000))); // 0.25
}

} // namespace

TEST(a_variant_that_the_driver_refuses_gives_way_to_the_next) {
    Device device = open_device();
    Stream stream = new_stream(device);
    const size_t best = first_usable(variants_of(device, "softmax"));
    create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
    {
        kpx_error err{};
        Storage x = new_storage(device, 16), y = new_storage(device, 16);
        upload(stream, x, {0, 0, 0, 0});
        FAILING(vkCreateComputePipelines, refuse_at_first);
        refused = 1;
        REQUIRE_OK(softmax(stream, x, y, &err));
        CHECK(err.refusals == 1 && stats_of(device).refusals == 1);
        CHECK((download(stream, y, 4) == std::vector<uint32_t>(4, 0x3e800000)));
    }
    const std::vector<kpx_variant> variants = variants_of(device, "softmax");
    CHECK(variants[best].state == KPX_VARIANT_REFUSED && strstr(variants[best].reason, "vkCreateComputePipelines"));
    CHECK(variants[best].calls == 0);
    CHECK(first_usable(variants) == best + 1 && variants[best + 1].calls == 1);
}

TEST(a_refusal_is_of_one_set_of_constants_until_it_comes_again) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, 4 * 4096), y = new_storage(device, 4 * 4096);
    upload(stream, x, std::vector<uint32_t>(4096, 0));
    const size_t best = first_usable(variants_of(device, "softmax"));
    const auto calls = [&] { return variants_of(device, "softmax")[best].calls; };
    const auto run = [&](int64_t n, uint32_t dtype, int refuse) {
        FAILING(vkCreateComputePipelines, refuse_at_first);
        refused = refuse;
        REQUIRE_OK(softmax(stream, x, y, &err, n, dtype));
        flush(stream);
        CHECK(refused <= 0);
    };
    create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
    run(4, DT_FLOAT32, 1);
    CHECK(calls() == 0);
    run(2000, DT_FLOAT32, 0); // other constants, which the driver accepts
    CHECK(calls() == 1);
    run(4, DT_FLOAT32, 0); // not tried again
    CHECK(calls() == 1);
    run(4, DT_FLOAT16, 1);
    CHECK(stats_of(device).refusals == 1); // still by one variant
    run(2000, DT_FLOAT16, 0);              // which no call tries again
    CHECK(calls() == 1);
}

TEST(without_a_variant_left_an_op_is_unsupported) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, 16), y = new_storage(device, 16);
    upload(stream, x, {0, 0, 0, 0});
    create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
    {
        FAILING(vkCreateComputePipelines, refuse_at_first);
        refused = 100;
        REQUIRE_CODE(KPX_UNSUPPORTED, softmax(stream, x, y, &err));
        CHECK(err.refusals > 1 && err.refusals == stats_of(device).refusals);
    }
    REQUIRE_CODE(KPX_UNSUPPORTED, softmax(stream, x, y, &err)); // the refused ones are not tried again
    const std::vector<kpx_variant> variants = variants_of(device, "softmax");
    CHECK(first_usable(variants) == variants.size());
}

TEST(lack_of_memory_is_no_refusal) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, 16), y = new_storage(device, 16);
    {
        FAILING(vkCreateComputePipelines, no_memory);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, softmax(stream, x, y, &err));
    }
    CHECK(stats_of(device).refusals == 0);
    check_softmax(device, stream);
}

TEST(a_kernel_that_the_driver_refuses_gives_way_to_another) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    const int64_t k = 32, n = 8;
    Storage x = new_storage(device, 4 * k), w = new_storage(device, n * k / 2), s = new_storage(device, 4 * n),
            y = new_storage(device, 4 * n);
    upload(stream, x, std::vector<uint32_t>(k, 0x3f800000));
    upload(stream, w, std::vector<uint32_t>(n * k / 8, 0));
    upload(stream, s, std::vector<uint32_t>(n, 0x3f800000));
    const auto matrix = [](const Storage &of, uint32_t dtype, int64_t rows, int64_t cols, kpx_access access) {
        kpx_array array = words_of(of, rows * cols, access);
        array.dtype = dtype;
        array.rank = 2;
        array.shape[0] = rows, array.shape[1] = cols, array.strides[0] = cols, array.strides[1] = 1;
        return array;
    };
    const kpx_array scales = matrix(s, DT_FLOAT32, n, 1, KPX_READ);
    const kpx::QuantizedMatMulOp op{.group_size = 32, .bits = 4, .mode = QUANTIZATION_AFFINE, .transpose = 1};
    const auto multiply = [&] {
        REQUIRE_OK(append_op(stream, "quantized_matmul",
                             {matrix(x, DT_FLOAT32, 1, k, KPX_READ), matrix(w, DT_UINT32, n, k / 8, KPX_READ), scales,
                              scales, matrix(y, DT_FLOAT32, 1, n, KPX_WRITE)},
                             &op, sizeof op, &err));
        CHECK((download(stream, y, n) == std::vector<uint32_t>(n, 0x42000000))); // 32 times the bias of 1
    };
    flush(stream);
    const size_t lanes = variants_of(device, "quantized_matmul_lanes").size();
    create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
    {
        FAILING(vkCreateComputePipelines, refuse_at_first);
        refused = int(lanes);
        multiply();
    }
    const std::vector<kpx_variant> left = variants_of(device, "quantized_matmul_lanes");
    const bool preferred = left[0].state == KPX_VARIANT_REFUSED; // only on CPU drivers
    CHECK(!preferred || first_usable(left) == left.size());
    CHECK(stats_of(device).refusals == lanes);
    multiply();
}

TEST(disabled_variants_do_not_run) {
    kpx_error err{};
    Device plain = open_device();
    const std::vector<kpx_variant> all = variants_of(plain, "softmax");
    const size_t best = first_usable(all);
    const std::string name = std::string(all[best].kernel) + "." + all[best].variant;
    kpx_device_options options{};
    options.disabled = name.c_str();
    Device device = open_device(options);
    Stream stream = new_stream(device);
    check_softmax(device, stream);
    const std::vector<kpx_variant> variants = variants_of(device, "softmax");
    CHECK(variants[best].state == KPX_VARIANT_DISABLED && variants[best].calls == 0);
    CHECK(variants[best + 1].calls == 1);
    kpx_device *opened = nullptr;
    options.disabled = "softmax.none";
    REQUIRE_CODE(KPX_INVALID, kpx_device_open(0, &options, &opened, &err));
    CHECK(strstr(err.message, "softmax.none") != nullptr);
}

TEST(replays_count_as_calls_of_their_kernels) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, 16), y = new_storage(device, 16);
    upload(stream, x, {0, 0, 0, 0});
    begin_capture(stream);
    REQUIRE_OK(softmax(stream, x, y, &err));
    Region region = end_capture(stream);
    const size_t best = first_usable(variants_of(device, "softmax"));
    CHECK(variants_of(device, "softmax")[best].calls == 0);
    wait(stream, replay(stream, region, 3));
    CHECK(variants_of(device, "softmax")[best].calls == 3);
}
