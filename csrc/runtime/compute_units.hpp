// How many compute units (streaming multiprocessors, shader cores) a device has.
#pragma once

#include <cstdint>

#include <vulkan/vulkan.hpp>

namespace kpx {

// By its vendor's extension; without one, a guess by the kind of device. It influences how work is launched, never
// the results.
uint32_t compute_units(vk::PhysicalDevice device);

} // namespace kpx
