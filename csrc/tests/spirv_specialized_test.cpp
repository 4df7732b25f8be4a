// Modules without what their specialization constants rule out compute the same, and are valid.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#ifdef KPX_SPIRV_TOOLS
#include <spirv-tools/libspirv.h>
#endif

#include "failing.hpp"
#include "runtime/embedded.hpp"
#include "runtime/spirv_specialized.hpp"
#include "shaders.hpp"
#include "test.hpp"

namespace {

std::vector<uint32_t> computed(const Device &device, const std::vector<uint32_t> &spirv,
                               const std::vector<uint32_t> &spec) {
    kpx_error err{};
    constexpr uint32_t n = 64, groups[3] = {n / 32, 1, 1};
    std::vector<uint32_t> data(n);
    for (uint32_t i = 0; i < n; i++) {
        data[i] = i;
    }
    const Algorithm algorithm = new_algorithm(device, spirv, 1, spec, 0);
    const Stream stream = new_stream(device);
    const Storage buffer = new_storage(device, n * sizeof(uint32_t));
    upload(stream, buffer, data);
    const kpx_array x = words_of(buffer, n, KPX_READ_WRITE);
    REQUIRE_OK(kpx_dispatch(stream.get(), algorithm.get(), &x, 1, groups, nullptr, 0, &err));
    return download(stream, buffer, n);
}

PFN_vkCreateShaderModule create;
size_t created_bytes; // of the last module

VkResult create_and_note(VkDevice device, const VkShaderModuleCreateInfo *info, const VkAllocationCallbacks *callbacks,
                         VkShaderModule *out) {
    created_bytes = info->codeSize;
    return create(device, info, callbacks, out);
}

// The bytes of the module that a device gets for an addition.
size_t bytes_for_addition(const char *specialize) {
    const char *name = "KOMPUTE_GO_SPECIALIZE", *found = getenv(name);
    const std::optional<std::string> before = found != nullptr ? std::optional<std::string>(found) : std::nullopt;
    specialize != nullptr ? setenv(name, specialize, 1) : unsetenv(name);
    const Device device = open_device();
    before ? setenv(name, before->c_str(), 1) : unsetenv(name);
    const Stream stream = new_stream(device);
    const Storage a = new_storage(device, 64), out = new_storage(device, 64);
    upload(stream, a, std::vector<uint32_t>(16, 1));
    create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateShaderModule;
    FAILING(vkCreateShaderModule, create_and_note);
    add_words(stream, a, a, out, 16);
    CHECK(download(stream, out, 16) == std::vector<uint32_t>(16, 2));
    return created_bytes;
}

#ifdef KPX_SPIRV_TOOLS
bool is_valid(const uint32_t *words, size_t count) {
    const spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    const spv_result_t result = spvValidateBinary(context, words, count, nullptr);
    spvContextDestroy(context);
    return result == SPV_SUCCESS;
}
#else
bool is_valid(const uint32_t *, size_t) {
    return true;
}
#endif

} // namespace

TEST(a_specialized_module_computes_the_same) {
    const Device device = open_device();
    for (const auto *module : {&spirv_branches, &spirv_branches_O0}) {
        uint32_t whole = 0;
        for (uint32_t i = 0; i < 60; i++) {
            const std::vector<uint32_t> spec{i / 12, i % 4, i / 4 % 3};
            const auto code = kpx::specialized(module->data(), module->size(), spec.data(), uint32_t(spec.size()));
            if (!code) {
                whole++;
                continue;
            }
            CHECK(code->size() < module->size());
            CHECK(is_valid(code->data(), code->size()));
            CHECK(computed(device, *code, spec) == computed(device, *module, spec));
        }
        CHECK(whole <= 50); // loops that run once and end in several places stay, and without -O the rest with them
    }
}

TEST(drivers_get_specialized_modules) {
    const size_t whole = bytes_for_addition("0"), part = bytes_for_addition(nullptr);
    CHECK(part < whole / 2);
    CHECK(bytes_for_addition("1") == part);
    const auto *end = kpx::embedded_kernels + kpx::embedded_kernel_count;
    CHECK(std::any_of(kpx::embedded_kernels, end, [&](const kpx::EmbeddedKernel &k) {
        return std::string(k.kernel) == "binary" && k.bytes() == whole;
    }));
}

// The constants of a kernel seldom fit together here, but may have any values as far as its blocks are concerned.
TEST(every_kernel_can_be_specialized) {
    Random random{7};
    for (uint32_t i = 0; i < kpx::embedded_kernel_count; i++) {
        const kpx::EmbeddedKernel &kernel = kpx::embedded_kernels[i];
        const size_t count = kernel.bytes() / sizeof(uint32_t);
        // Debian 12's validator does not know the extensions of some.
        const bool checked = std::string(kernel.features).find("coopmat") == std::string::npos;
        for (uint32_t round = 0; round < 2; round++) {
            std::vector<uint32_t> spec(round == 0 ? 0 : 28);
            for (uint32_t &value : spec) {
                value = random.below(2) == 0 ? random.below(4) : 4u << random.below(7);
            }
            const auto code = kpx::specialized(kernel.spirv, count, spec.data(), uint32_t(spec.size()));
            CHECK(code.has_value());
            CHECK(code->size() <= count);
            CHECK(!checked || is_valid(code->data(), code->size()));
        }
    }
}
