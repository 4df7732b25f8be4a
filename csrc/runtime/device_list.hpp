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

// The family that compute goes to: one without graphics if there is one, since
// it has the queues to itself. -1: the device has none.
int compute_family(vk::PhysicalDevice device);

// Bytes of the largest tensor: what one binding may span, what one allocation
// may hold, and the 32-bit sizes of kp::Tensor.
uint64_t largest_tensor(vk::PhysicalDevice device);

// Bytes free on the heap that device-local memory comes from; total is that heap's size.
uint64_t heap_available(vk::PhysicalDevice device, bool has_budget, uint64_t *total);

} // namespace kpx
