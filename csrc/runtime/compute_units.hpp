// How many compute units (streaming multiprocessors, shader cores) a device has.
#pragma once

#include <cstdint>

#include <vulkan/vulkan.hpp>

namespace kpx {

// The number that the vendor's extension reports; without an extension, a guess by the kind of device. It influences
// how work is launched, never the results.
uint32_t compute_units(vk::PhysicalDevice device);

} // namespace kpx
