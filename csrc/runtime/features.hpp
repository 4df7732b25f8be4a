// A device's features beyond Vulkan 1.2's minimum, with the names that
// cmake/shaders.cmake uses.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <vulkan/vulkan.hpp>

#include "runtime/coopmat.hpp"
#include "runtime/mask.hpp"

namespace kpx {

struct Features {
    bool storage16 = false; // 16- and 8-bit elements in storage buffers
    bool float16 = false;   // arithmetic on these types
    bool int8 = false;
    bool int16 = false;
    bool int64 = false;
    bool float64 = false;
    bool subgroup = false;      // basic, vote, arithmetic, ballot, shuffle in compute
    bool subgroup32 = false;    // and at least 32 lanes
    bool subgroup_size = false; // a compute pipeline may ask for its subgroup size
    bool dot8 = false;          // integer dot product
    bool fast_dot8 = false;     // of four bytes, as an instruction
    bool shared32 = false;      // 32 KiB of shared memory, twice what Vulkan requires
    bool memory_model = false;  // Vulkan memory model, with device scope
    bool coopmat_khr = false;   // VK_KHR_cooperative_matrix, in the shape of coopmat.hpp
    bool coopmat8_khr = false;  // the same of bytes
    bool coopmat_nv = false;    // VK_NV_cooperative_matrix, likewise
    bool coopmat2_nv = false;   // VK_NV_cooperative_matrix2: reductions, conversions, operations on elements
    // Only if they are asked for: no kernel of this library needs them.
    bool atomic_float32 = false; // additions to floats in buffers
    bool atomic_float64 = false;
    bool atomic_int64 = false;       // in buffers
    bool variable_pointers = false;  // to storage buffers
    bool subgroup_clustered = false; // operations of a part of a subgroup
    bool subgroup_quad = false;
    bool small_code = false; // a CPU driver of narrow vectors, whose compiler takes minutes for what GPUs unroll
    bool timeline = false;
    bool memory_budget = false; // VK_EXT_memory_budget

    bool has(const std::string &name) const; // false for any other name
    bool has_all(const std::string &comma_list) const;
    static bool known(const std::string &name);
};

// The subgroup sizes that a compute pipeline may request: all powers of two between these; 0: none.
struct SubgroupSizes {
    uint32_t min = 0, max = 0;
    uint32_t per_workgroup = 0; // the most subgroups of a workgroup whose pipeline requests one
    bool full = false;          // it may also require full subgroups
};

// Those Features that the device supports and that are not masked, and the chain that
// enables them. Chains point into themselves, so they are held by pointer and never
// copied.
class FeatureChain {
  public:
    // wanted: names of features, separated by commas. Throws KPX_UNSUPPORTED if the device lacks one.
    explicit FeatureChain(vk::PhysicalDevice device, const Mask &mask = {}, std::string_view wanted = "");
    FeatureChain(const FeatureChain &) = delete;
    FeatureChain &operator=(const FeatureChain &) = delete;

    const Features &features() const { return features_; }
    const SubgroupSizes &subgroup_sizes() const { return sizes_; }
    const std::vector<const char *> &extensions() const { return extensions_; }
    const void *head() const { return &core_; } // pNext of vkCreateDevice

  private:
    void query(vk::PhysicalDevice device);
    void query_subgroup_sizes(vk::PhysicalDevice device);
    void take_away(const Mask &mask);
    void keep_only_needed();
    void want(std::string_view names);
    void link(void *structure);

    Features features_;
    SubgroupSizes sizes_;
    std::vector<const char *> extensions_;
    vk::PhysicalDeviceFeatures2 core_;
    vk::PhysicalDeviceVulkan11Features v11_;
    vk::PhysicalDeviceVulkan12Features v12_;
    vk::PhysicalDeviceSubgroupSizeControlFeatures subgroup_size_;
    vk::PhysicalDeviceShaderIntegerDotProductFeatures dot_;
    vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float_;
    vk::PhysicalDeviceCooperativeMatrixFeaturesNV coopmat_nv_;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR coopmat_khr_{kCooperativeMatrixFeaturesKHR, nullptr, VK_FALSE,
                                                              VK_FALSE};
    VkPhysicalDeviceCooperativeMatrix2FeaturesNV coopmat2_nv_ = no_matrix2_features();
};

} // namespace kpx
