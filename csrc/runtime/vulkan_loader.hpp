// libvulkan, opened at run time, and the one instance of the process.
#pragma once

#include <atomic>
#include <cstdint>

#include <vulkan/vulkan.hpp>

#include "abi/kpx.h"

namespace kpx {

// Opens libvulkan and creates the instance on the first call; later calls return
// the same one. Throws Error KPX_NO_VULKAN with the reason, and tries again next
// time. The instance lives as long as the process: devices of several Go packages
// share it, and drivers take tens of milliseconds to start.
vk::Instance vulkan_instance();

// Whether an environment variable is set to anything but nothing and 0.
bool switched_on(const char *variable);

// Whether the validation layer is on (KOMPUTE_GO_VALIDATION=1).
bool validation_wanted();

// Messages of the validation layer so far (KOMPUTE_GO_VALIDATION=1), all devices together.
uint64_t validation_messages();

// The kpx_result for a VkResult that is an error.
kpx_result result_code(vk::Result result);

// Throws an Error for every result but eSuccess.
void check(vk::Result result, const char *what);

} // namespace kpx
