#include "runtime/features.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "abi/error.hpp"

namespace kpx {

namespace {

const struct {
    const char *name;
    bool Features::*flag;
} kNames[] = {
    {"storage16", &Features::storage16},
    {"float16", &Features::float16},
    {"int8", &Features::int8},
    {"int16", &Features::int16},
    {"int64", &Features::int64},
    {"float64", &Features::float64},
    {"subgroup", &Features::subgroup},
    {"subgroup32", &Features::subgroup32},
    {"subgroup_size", &Features::subgroup_size},
    {"dot8", &Features::dot8},
    {"shared32", &Features::shared32},
    {"memory_model", &Features::memory_model},
    {"coopmat_khr", &Features::coopmat_khr},
    {"coopmat8_khr", &Features::coopmat8_khr},
    {"coopmat_nv", &Features::coopmat_nv},
    {"coopmat2_nv", &Features::coopmat2_nv},
    {"atomic_float32", &Features::atomic_float32},
    {"atomic_float64", &Features::atomic_float64},
    {"atomic_int64", &Features::atomic_int64},
    {"variable_pointers", &Features::variable_pointers},
    {"subgroup_clustered", &Features::subgroup_clustered},
    {"subgroup_quad", &Features::subgroup_quad},
};

bool offers(const std::vector<vk::ExtensionProperties> &all, const char *name) {
    for (const vk::ExtensionProperties &one : all) {
        if (strcmp(one.extensionName, name) == 0) {
            return true;
        }
    }
    return false;
}

} // namespace

bool Features::has(const std::string &name) const {
    for (const auto &entry : kNames) {
        if (name == entry.name) {
            return this->*entry.flag;
        }
    }
    return name == "small_code" && small_code; // nobody asks a device for it
}

bool Features::known(const std::string &name) {
    for (const auto &entry : kNames) {
        if (name == entry.name) {
            return true;
        }
    }
    return false;
}

bool Features::has_all(const std::string &comma_list) const {
    std::stringstream stream(comma_list);
    for (std::string name; std::getline(stream, name, ',');) {
        if (!name.empty() && !has(name)) {
            return false;
        }
    }
    return true;
}

void FeatureChain::link(void *structure) {
    auto *base = static_cast<VkBaseOutStructure *>(structure);
    base->pNext = static_cast<VkBaseOutStructure *>(core_.pNext);
    core_.pNext = base;
}

FeatureChain::FeatureChain(vk::PhysicalDevice device, const Mask &mask, std::string_view wanted) {
    const auto all = device.enumerateDeviceExtensionProperties();
    const bool v13 = device.getProperties().apiVersion >= VK_API_VERSION_1_3;
    link(&v11_);
    link(&v12_);
    auto optional = [&](const char *extension, bool core_in_13, void *structure) {
        if (offers(all, extension)) {
            extensions_.push_back(extension);
        } else if (!(v13 && core_in_13)) {
            return;
        }
        if (structure != nullptr) {
            link(structure);
        }
    };
    optional(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, true, &subgroup_size_);
    optional(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME, true, &dot_);
    optional(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME, false, &atomic_float_);
    optional(VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME, false, &coopmat_nv_);
    optional(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, false, &coopmat_khr_);
    optional(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME, false, &coopmat2_nv_);
    features_.memory_budget = !mask.memory_budget && offers(all, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (features_.memory_budget) {
        extensions_.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    }
    device.getFeatures2(&core_);
    take_away(mask);
    query(device);
    features_.subgroup = features_.subgroup && !mask.subgroup;
    features_.subgroup32 = features_.subgroup32 && !mask.subgroup;
    features_.shared32 = features_.shared32 && !mask.shared_memory;
    want(wanted);
    keep_only_needed();
}

void FeatureChain::take_away(const Mask &mask) {
    const auto off = [](bool masked, auto &...features) {
        if (masked) {
            ((features = VK_FALSE), ...);
        }
    };
    off(mask.storage16, v11_.storageBuffer16BitAccess, v12_.storageBuffer8BitAccess);
    off(mask.float16, v12_.shaderFloat16);
    off(mask.int8, v12_.shaderInt8);
    off(mask.int16, core_.features.shaderInt16);
    off(mask.int64, core_.features.shaderInt64);
    off(mask.float64, core_.features.shaderFloat64);
    off(mask.subgroup, v12_.shaderSubgroupExtendedTypes);
    off(mask.subgroup_size, subgroup_size_.subgroupSizeControl, subgroup_size_.computeFullSubgroups);
    off(mask.dot8, dot_.shaderIntegerDotProduct);
    off(mask.coopmat, coopmat_nv_.cooperativeMatrix, coopmat_khr_.cooperativeMatrix,
        coopmat2_nv_.cooperativeMatrixReductions);
    off(mask.memory_model, v12_.vulkanMemoryModel, v12_.vulkanMemoryModelDeviceScope);
}

void FeatureChain::query(vk::PhysicalDevice device) {
    Features &f = features_;
    f.storage16 = v11_.storageBuffer16BitAccess && v12_.storageBuffer8BitAccess;
    f.float16 = v12_.shaderFloat16;
    f.int8 = v12_.shaderInt8;
    f.int16 = core_.features.shaderInt16;
    f.int64 = core_.features.shaderInt64;
    f.float64 = core_.features.shaderFloat64;
    f.timeline = v12_.timelineSemaphore;
    f.memory_model = v12_.vulkanMemoryModel && v12_.vulkanMemoryModelDeviceScope;
    query_subgroup_sizes(device);
    f.dot8 = dot_.shaderIntegerDotProduct;
    f.coopmat_nv = coopmat_nv_.cooperativeMatrix && has_matrices_nv(device);
    f.coopmat_khr = coopmat_khr_.cooperativeMatrix && has_matrices_khr(device);
    f.coopmat8_khr = coopmat_khr_.cooperativeMatrix && has_byte_matrices_khr(device);

    f.coopmat2_nv = f.coopmat_khr && coopmat2_nv_.cooperativeMatrixReductions &&
                    coopmat2_nv_.cooperativeMatrixConversions && coopmat2_nv_.cooperativeMatrixPerElementOperations;

    vk::PhysicalDeviceSubgroupProperties subgroup;
    vk::PhysicalDeviceShaderIntegerDotProductProperties dot;
    vk::PhysicalDeviceProperties2 properties;
    properties.pNext = &subgroup;
    subgroup.pNext = f.dot8 ? &dot : nullptr;
    device.getProperties2(&properties);
    f.fast_dot8 =
        dot.integerDotProduct4x8BitPackedUnsignedAccelerated && dot.integerDotProduct4x8BitPackedSignedAccelerated;
    using Op = vk::SubgroupFeatureFlagBits;
    const vk::SubgroupFeatureFlags wanted =
        Op::eBasic | Op::eVote | Op::eArithmetic | Op::eBallot | Op::eShuffle | Op::eShuffleRelative;
    f.subgroup = (subgroup.supportedOperations & wanted) == wanted &&
                 (subgroup.supportedStages & vk::ShaderStageFlagBits::eCompute) && subgroup.subgroupSize > 1;
    f.small_code = properties.properties.deviceType == vk::PhysicalDeviceType::eCpu && subgroup.subgroupSize < 8;
    f.shared32 = properties.properties.limits.maxComputeSharedMemorySize >= 32 << 10;
    f.subgroup32 = f.subgroup && subgroup.subgroupSize >= 32;
    f.subgroup_clustered = f.subgroup && (subgroup.supportedOperations & Op::eClustered);
    f.subgroup_quad = f.subgroup && (subgroup.supportedOperations & Op::eQuad);
    f.atomic_float32 = atomic_float_.shaderBufferFloat32AtomicAdd;
    f.atomic_float64 = atomic_float_.shaderBufferFloat64AtomicAdd;
    f.atomic_int64 = v12_.shaderBufferInt64Atomics && f.int64;
    f.variable_pointers = v11_.variablePointersStorageBuffer;
}

void FeatureChain::query_subgroup_sizes(vk::PhysicalDevice device) {
    if (!subgroup_size_.subgroupSizeControl) {
        return;
    }
    vk::PhysicalDeviceSubgroupSizeControlProperties control;
    vk::PhysicalDeviceProperties2 properties;
    properties.pNext = &control;
    device.getProperties2(&properties);
    if (control.requiredSubgroupSizeStages & vk::ShaderStageFlagBits::eCompute) {
        features_.subgroup_size = true;
        sizes_ = {control.minSubgroupSize, control.maxSubgroupSize, control.maxComputeWorkgroupSubgroups,
                  bool(subgroup_size_.computeFullSubgroups)};
    }
}

// Drops the features that no kernel needs, except those that are wanted.
void FeatureChain::want(std::string_view names) {
    Features asked;
    while (!names.empty()) {
        const std::string name(names.substr(0, names.find(',')));
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        const auto found = std::find_if(std::begin(kNames), std::end(kNames), [&](auto &n) { return n.name == name; });
        if (found == std::end(kNames)) {
            std::string known;
            for (const auto &one : kNames) {
                known.append(known.empty() ? "" : " ").append(one.name);
            }
            fail(KPX_INVALID, "no feature {} to enable; there are {}", name, known);
        }
        if (!(features_.*found->flag)) {
            fail(KPX_UNSUPPORTED, "the device lacks the feature {}", name);
        }
        asked.*found->flag = true;
    }
    for (bool Features::*optional :
         {&Features::atomic_float32, &Features::atomic_float64, &Features::atomic_int64, &Features::variable_pointers,
          &Features::subgroup_clustered, &Features::subgroup_quad}) {
        features_.*optional = asked.*optional;
    }
}

// Enabling unused features can cost speed (robust buffer access does), so only
// those of Features, and those that a user's own shader is likely to need, stay
// enabled.
void FeatureChain::keep_only_needed() {
    vk::PhysicalDeviceFeatures core;
    core.shaderInt16 = core_.features.shaderInt16;
    core.shaderInt64 = core_.features.shaderInt64;
    core.shaderFloat64 = core_.features.shaderFloat64;
    core_.features = core;

    vk::PhysicalDeviceVulkan11Features v11;
    v11.storageBuffer16BitAccess = v11_.storageBuffer16BitAccess;
    v11.variablePointersStorageBuffer = features_.variable_pointers;
    v11.pNext = v11_.pNext;
    v11_ = v11;

    vk::PhysicalDeviceVulkan12Features v12;
    v12.storageBuffer8BitAccess = v12_.storageBuffer8BitAccess;
    v12.shaderFloat16 = v12_.shaderFloat16;
    v12.shaderInt8 = v12_.shaderInt8;
    v12.shaderSubgroupExtendedTypes = v12_.shaderSubgroupExtendedTypes;
    v12.timelineSemaphore = v12_.timelineSemaphore;
    v12.vulkanMemoryModel = v12_.vulkanMemoryModel;
    v12.vulkanMemoryModelDeviceScope = v12_.vulkanMemoryModelDeviceScope;
    v12.shaderBufferInt64Atomics = features_.atomic_int64;
    v12.pNext = v12_.pNext;
    v12_ = v12;

    vk::PhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float;
    atomic_float.shaderBufferFloat32AtomicAdd = features_.atomic_float32;
    atomic_float.shaderBufferFloat32Atomics = features_.atomic_float32 && atomic_float_.shaderBufferFloat32Atomics;
    atomic_float.shaderBufferFloat64AtomicAdd = features_.atomic_float64;
    atomic_float.shaderBufferFloat64Atomics = features_.atomic_float64 && atomic_float_.shaderBufferFloat64Atomics;
    atomic_float.pNext = atomic_float_.pNext;
    atomic_float_ = atomic_float;

    coopmat_nv_.cooperativeMatrixRobustBufferAccess = VK_FALSE;
    coopmat_khr_.cooperativeMatrixRobustBufferAccess = VK_FALSE;
    auto coopmat2 = no_matrix2_features();
    coopmat2.pNext = coopmat2_nv_.pNext;
    coopmat2.cooperativeMatrixReductions = features_.coopmat2_nv;
    coopmat2.cooperativeMatrixConversions = features_.coopmat2_nv;
    coopmat2.cooperativeMatrixPerElementOperations = features_.coopmat2_nv;
    coopmat2_nv_ = coopmat2;
}

} // namespace kpx
