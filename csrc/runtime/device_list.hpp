// The machine's Vulkan devices, best first.
#pragma once

#include <vector>

#include <vulkan/vulkan.hpp>

#include "abi/kpx.h"

namespace kpx {

struct ListedDevice {
    vk::PhysicalDevice handle;
    kpx_device_info info;
};

// Ranked discrete, integrated, virtual, CPU, other; the driver's order within a
// rank. Throws KPX_NO_VULKAN without a device.
std::vector<ListedDevice> list_devices();

// The queue family for compute: one without graphics if there is one, since
// nothing else uses its queues. -1: the device has none.
int compute_family(vk::PhysicalDevice device);

// What a tensor takes of device memory is a multiple of this, and so is the size of the largest one; no device requires
// a greater alignment.
constexpr uint64_t kMemoryUnit = 256;
constexpr uint64_t whole_units(uint64_t bytes) {
    return bytes / kMemoryUnit * kMemoryUnit;
}

// The size of the largest tensor in bytes, limited by what one binding can
// span, by what one allocation can hold, and by the 32-bit sizes of kp::Tensor.
uint64_t largest_tensor(vk::PhysicalDevice device);

// Bytes free on the heap that device-local memory comes from; total is that heap's size.
uint64_t heap_available(vk::PhysicalDevice device, bool has_budget, uint64_t *total);

} // namespace kpx
