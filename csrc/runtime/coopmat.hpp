// Which devices have the cooperative matrices of shaders/include/coopmat.glsl:
// 16 by 16 by 16, float16 with float32 sums, held by a subgroup; and those of
// byte_tiles.glsl: 16 by 16 by 32, signed bytes with sums of 32 bits.
#pragma once

#include <vulkan/vulkan.hpp>

// VK_KHR_cooperative_matrix, for older headers.
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix;
    VkBool32 cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesKHR {
    VkStructureType sType;
    void *pNext;
    uint32_t MSize, NSize, KSize;
    uint32_t AType, BType, CType, ResultType; // components: 0 is float16, 1 float32, 3 int8, 5 int32
    VkBool32 saturatingAccumulation;
    uint32_t scope; // 3 is the subgroup
};
#endif

// VK_NV_cooperative_matrix2, likewise.
#ifndef VK_NV_cooperative_matrix2
#define VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME "VK_NV_cooperative_matrix2"
struct VkPhysicalDeviceCooperativeMatrix2FeaturesNV {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrixWorkgroupScope;
    VkBool32 cooperativeMatrixFlexibleDimensions;
    VkBool32 cooperativeMatrixReductions;
    VkBool32 cooperativeMatrixConversions;
    VkBool32 cooperativeMatrixPerElementOperations;
    VkBool32 cooperativeMatrixTensorAddressing;
    VkBool32 cooperativeMatrixBlockLoads;
};
#endif

namespace kpx {

constexpr auto kCooperativeMatrixFeaturesKHR = VkStructureType(1000506000);
constexpr auto kCooperativeMatrixPropertiesKHR = VkStructureType(1000506001);

// Masks all of these features.
inline VkPhysicalDeviceCooperativeMatrix2FeaturesNV no_matrix2_features() {
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV none{};
    none.sType = VkStructureType(1000593000);
    return none;
}

// Whether the device, which has that form of the extension, lists the shape.
bool has_matrices_nv(vk::PhysicalDevice device);
bool has_matrices_khr(vk::PhysicalDevice device);
// Products of 16 by 16 and 16 by 8 matrices of float16 with float32 sums.
bool has_matrices_of_8_khr(vk::PhysicalDevice device);

bool has_byte_matrices_khr(vk::PhysicalDevice device, uint32_t columns = 16); // or 8

} // namespace kpx
