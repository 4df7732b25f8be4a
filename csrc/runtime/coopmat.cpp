#include "runtime/coopmat.hpp"

#include <vector>

#include "runtime/vulkan_loader.hpp"

namespace kpx {

namespace {

constexpr uint32_t kSize = 16;
constexpr uint32_t kFloat16 = 0, kFloat32 = 1; // VkComponentType of both forms
constexpr uint32_t kInt8 = 3, kInt32 = 5;
constexpr uint32_t kSubgroup = 3; // VkScope of both forms

// Both forms' properties have the same members.
template <typename P> bool serves(const P &p, uint32_t columns = kSize) {
    return p.MSize == kSize && p.NSize == columns && p.KSize == kSize && uint32_t(p.AType) == kFloat16 &&
           uint32_t(p.BType) == kFloat16 && uint32_t(p.CType) == kFloat32 && uint32_t(p.scope) == kSubgroup;
}

template <typename P> using Query = VkResult (*)(VkPhysicalDevice, uint32_t *, P *);

// Calls the instance's function of that name, if there is one.
template <typename P> std::vector<P> properties_of(vk::PhysicalDevice device, Query<P> query, VkStructureType type) {
    uint32_t count = 0;
    if (query == nullptr || query(device, &count, nullptr) != VK_SUCCESS) {
        return {};
    }
    P blank{};
    blank.sType = type;
    std::vector<P> all(count, blank);
    if (query(device, &count, all.data()) != VK_SUCCESS) {
        return {};
    }
    all.resize(count);
    return all;
}

} // namespace

bool has_matrices_nv(vk::PhysicalDevice device) {
    const auto query = VULKAN_HPP_DEFAULT_DISPATCHER.vkGetPhysicalDeviceCooperativeMatrixPropertiesNV;
    for (const auto &p : properties_of<VkCooperativeMatrixPropertiesNV>(
             device, query, VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV)) {
        if (serves(p) && p.DType == VK_COMPONENT_TYPE_FLOAT32_NV) {
            return true;
        }
    }
    return false;
}

using PropertiesKHR = VkCooperativeMatrixPropertiesKHR;

static std::vector<PropertiesKHR> properties_khr(vk::PhysicalDevice device) {
    const auto query = reinterpret_cast<Query<PropertiesKHR>>(VULKAN_HPP_DEFAULT_DISPATCHER.vkGetInstanceProcAddr(
        vulkan_instance(), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    return properties_of<PropertiesKHR>(device, query, kCooperativeMatrixPropertiesKHR);
}

static bool has_float_matrices_khr(vk::PhysicalDevice device, uint32_t columns) {
    for (const PropertiesKHR &p : properties_khr(device)) {
        if (serves(p, columns) && uint32_t(p.ResultType) == kFloat32 && p.saturatingAccumulation == VK_FALSE) {
            return true;
        }
    }
    return false;
}

bool has_matrices_khr(vk::PhysicalDevice device) {
    return has_float_matrices_khr(device, kSize);
}

bool has_matrices_of_8_khr(vk::PhysicalDevice device) {
    return has_float_matrices_khr(device, 8);
}

bool has_byte_matrices_khr(vk::PhysicalDevice device, uint32_t columns) {
    for (const PropertiesKHR &p : properties_khr(device)) {
        if (p.MSize == kSize && p.NSize == columns && p.KSize == 2 * kSize && p.AType == kInt8 && p.BType == kInt8 &&
            p.CType == kInt32 && p.ResultType == kInt32 && p.saturatingAccumulation == VK_FALSE &&
            p.scope == kSubgroup) {
            return true;
        }
    }
    return false;
}

} // namespace kpx
