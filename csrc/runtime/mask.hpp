// Features and limits to mask, so that a device looks like a lesser one: any
// driver then runs the kernels that other devices would choose.
#pragma once

#include <string_view>

#include <vulkan/vulkan.hpp>

namespace kpx {

class Mask {
  public:
    // Names of mask.def, separated by commas. Throws KPX_INVALID for others.
    explicit Mask(std::string_view names);
    Mask() = default;

#define KPX_MASK(name) bool name = false;
#include "runtime/mask.def"
#undef KPX_MASK

    // Removes the masked ones from a device's features.
    void apply(vk::PhysicalDeviceLimits &limits) const;
};

} // namespace kpx
