#include "runtime/mask.hpp"

#include <algorithm>
#include <string>

#include "abi/error.hpp"

namespace kpx {

namespace {

const struct {
    std::string_view name;
    bool Mask::*flag;
} kMasks[] = {
#define KPX_MASK(name) {#name, &Mask::name},
#include "runtime/mask.def"
#undef KPX_MASK
};

[[noreturn]] void refuse(std::string_view name) {
    std::string known;
    for (const auto &mask : kMasks) {
        known.append(known.empty() ? "" : " ").append(mask.name);
    }
    fail(KPX_INVALID, "no feature {} to mask; there are {}", std::string(name), known);
}

} // namespace

Mask::Mask(std::string_view names) {
    while (!names.empty()) {
        const std::string_view name = names.substr(0, names.find(','));
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        const auto found = std::find_if(std::begin(kMasks), std::end(kMasks), [&](auto &m) { return m.name == name; });
        if (found == std::end(kMasks)) {
            refuse(name);
        }
        this->*found->flag = true;
    }
}

// Reduces limits to those that Vulkan 1.2 requires of every device.
void Mask::apply(vk::PhysicalDeviceLimits &limits) const {
    const auto at_most = [](bool masked, uint32_t &limit, uint32_t most) {
        if (masked) {
            limit = std::min(limit, most);
        }
    };
    at_most(push_constants, limits.maxPushConstantsSize, 128);
    at_most(shared_memory, limits.maxComputeSharedMemorySize, 16 << 10);
    at_most(invocations, limits.maxComputeWorkGroupInvocations, 128);
    for (uint32_t &size : limits.maxComputeWorkGroupSize) {
        at_most(invocations, size, 128);
    }
    at_most(bindings, limits.maxStorageBufferRange, 128 << 20);
}

} // namespace kpx
