// What a device is to do without, so that it looks like a lesser one: any driver
// then runs what other devices would choose.
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

    // Takes the masked ones from what a device offers.
    void apply(vk::PhysicalDeviceLimits &limits) const;
};

} // namespace kpx
