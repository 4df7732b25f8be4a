// How many compute units (streaming multiprocessors, shader cores) a device has.
#pragma once

#include <cstdint>

#include <vulkan/vulkan.hpp>

namespace kpx {

// From its vendor's extension; without one, a guess by the kind of device. Launches are planned by it, results do not
// depend on it.
uint32_t compute_units(vk::PhysicalDevice device);

} // namespace kpx
