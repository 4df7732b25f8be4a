#include "runtime/compute_units.hpp"

#include <algorithm>
#include <cstring>

namespace kpx {

uint32_t compute_units(vk::PhysicalDevice device) {
    const auto extensions = device.enumerateDeviceExtensionProperties();
    const auto offers = [&](const char *name) {
        return std::any_of(extensions.begin(), extensions.end(),
                           [&](const auto &e) { return strcmp(e.extensionName, name) == 0; });
    };
    vk::PhysicalDeviceProperties2 properties;
    vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia;
    vk::PhysicalDeviceShaderCorePropertiesAMD amd;
    if (offers(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
        properties.pNext = &nvidia;
    } else if (offers(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
        properties.pNext = &amd;
    }
    device.getProperties2(&properties);
    const uint32_t told =
        nvidia.shaderSMCount + amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
    if (told != 0) {
        return told;
    }
    switch (properties.properties.deviceType) {
    case vk::PhysicalDeviceType::eDiscreteGpu:
        return 48;
    case vk::PhysicalDeviceType::eIntegratedGpu:
        return 12;
    default:
        return 4;
    }
}

} // namespace kpx
