#include "runtime/device_list.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "abi/error.hpp"
#include "abi/text.hpp"
#include "runtime/features.hpp"
#include "runtime/vulkan_loader.hpp"

namespace kpx {

namespace {

uint32_t rank(vk::PhysicalDeviceType type) {
    switch (type) {
    case vk::PhysicalDeviceType::eDiscreteGpu:
        return KPX_DISCRETE;
    case vk::PhysicalDeviceType::eIntegratedGpu:
        return KPX_INTEGRATED;
    case vk::PhysicalDeviceType::eVirtualGpu:
        return KPX_VIRTUAL;
    case vk::PhysicalDeviceType::eCpu:
        return KPX_CPU;
    default:
        return KPX_OTHER;
    }
}

// Names a limit that Vulkan does not allow: what relies on such a driver would compute wrong numbers.
std::string wrong_limit(const vk::PhysicalDeviceLimits &l) {
    const struct {
        const char *name;
        uint64_t limit, least, most;
    } required[] = {
        {"maxStorageBufferRange", l.maxStorageBufferRange, uint64_t(1) << 27, UINT64_MAX},
        {"maxMemoryAllocationCount", l.maxMemoryAllocationCount, 4096, UINT64_MAX},
        {"maxPushConstantsSize", l.maxPushConstantsSize, 128, UINT64_MAX},
        {"maxPerStageDescriptorStorageBuffers", l.maxPerStageDescriptorStorageBuffers, 4, UINT64_MAX},
        {"maxComputeSharedMemorySize", l.maxComputeSharedMemorySize, 16 << 10, UINT64_MAX},
        {"maxComputeWorkGroupInvocations", l.maxComputeWorkGroupInvocations, 128, UINT64_MAX},
        {"maxComputeWorkGroupSize", l.maxComputeWorkGroupSize[0], 128, UINT64_MAX},
        {"maxComputeWorkGroupCount",
         *std::min_element(l.maxComputeWorkGroupCount.begin(), l.maxComputeWorkGroupCount.end()), 65535, UINT64_MAX},
        {"minStorageBufferOffsetAlignment", l.minStorageBufferOffsetAlignment, 0, 256},
    };
    for (const auto &r : required) {
        if (r.limit < r.least || r.limit > r.most) {
            return formatted("its limit {} is {}, which Vulkan does not allow", r.name, r.limit);
        }
    }
    return "";
}

std::string unusable_reason(vk::PhysicalDevice device, uint32_t api_version) {
    if (api_version < VK_API_VERSION_1_2) {
        return formatted("it offers Vulkan {}.{}, and 1.2 is needed", VK_API_VERSION_MAJOR(api_version),
                         VK_API_VERSION_MINOR(api_version));
    }
    if (compute_family(device) < 0) {
        return "it has no compute queue";
    }
    if (const std::string reason = wrong_limit(device.getProperties().limits); !reason.empty()) {
        return reason;
    }
    if (!FeatureChain(device).features().timeline) {
        return "it has no timeline semaphores";
    }
    return "";
}

// A software device's heap is the machine's memory, part of which others use.
uint64_t host_memory_available() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
        unsigned long long kib = 0;
        if (sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) {
            return kib * 1024;
        }
    }
    return UINT64_MAX;
}

kpx_device_info describe(vk::PhysicalDevice device) {
    vk::PhysicalDeviceDriverProperties driver;
    vk::PhysicalDeviceIDProperties id;
    vk::PhysicalDeviceSubgroupProperties subgroup;
    vk::PhysicalDeviceProperties2 all;
    all.pNext = &driver;
    driver.pNext = &id;
    id.pNext = &subgroup;
    const vk::PhysicalDeviceProperties basic = device.getProperties();
    if (basic.apiVersion >= VK_API_VERSION_1_2) {
        device.getProperties2(&all);
    }
    kpx_device_info info{};
    copy_text(info.name, basic.deviceName.data());
    copy_text(info.driver, std::string(driver.driverName.data()) + " " + driver.driverInfo.data());
    copy_text(info.uuid, hex(id.deviceUUID.data(), id.deviceUUID.size()));
    info.type = rank(basic.deviceType);
    info.api_version = basic.apiVersion;
    info.vendor_id = basic.vendorID;
    info.subgroup_size = subgroup.subgroupSize;
    copy_text(info.reason, unusable_reason(device, basic.apiVersion));
    info.usable = info.reason[0] == 0;
    if (info.usable) {
        const FeatureChain chain(device);
        info.memory_available = heap_available(device, chain.features().memory_budget, &info.memory_total);
        info.max_buffer_bytes = largest_tensor(device);
        info.min_subgroup_size = chain.subgroup_sizes().min;
        info.max_subgroup_size = chain.subgroup_sizes().max;
    }
    return info;
}

} // namespace

int compute_family(vk::PhysicalDevice device) {
    const auto families = device.getQueueFamilyProperties();
    int found = -1;
    for (size_t i = 0; i < families.size(); i++) {
        const vk::QueueFlags flags = families[i].queueFlags;
        if (!(flags & vk::QueueFlagBits::eCompute) || families[i].queueCount == 0) {
            continue;
        }
        if (!(flags & vk::QueueFlagBits::eGraphics)) {
            return int(i);
        }
        if (found < 0) {
            found = int(i);
        }
    }
    return found;
}

uint64_t largest_tensor(vk::PhysicalDevice device) {
    vk::PhysicalDeviceMaintenance3Properties allocation;
    vk::PhysicalDeviceProperties2 properties;
    properties.pNext = &allocation;
    device.getProperties2(&properties);
    const uint64_t bytes = std::min<uint64_t>(properties.properties.limits.maxStorageBufferRange, UINT32_MAX);
    return whole_units(std::min<uint64_t>(bytes, allocation.maxMemoryAllocationSize));
}

uint64_t heap_available(vk::PhysicalDevice device, bool has_budget, uint64_t *total) {
    vk::PhysicalDeviceMemoryBudgetPropertiesEXT budget;
    vk::PhysicalDeviceMemoryProperties2 memory;
    if (has_budget) {
        memory.pNext = &budget;
    }
    device.getMemoryProperties2(&memory);
    const vk::PhysicalDeviceMemoryProperties &m = memory.memoryProperties;
    uint32_t heap = 0;
    for (uint32_t i = 0; i < std::min(m.memoryTypeCount, VK_MAX_MEMORY_TYPES); i++) {
        if (m.memoryTypes[i].propertyFlags & vk::MemoryPropertyFlagBits::eDeviceLocal) {
            heap = m.memoryTypes[i].heapIndex; // the type that kp::Tensor takes
            break;
        }
    }
    const uint64_t size = heap < VK_MAX_MEMORY_HEAPS ? uint64_t(m.memoryHeaps[heap].size) : 0;
    if (total != nullptr) {
        *total = size;
    }
    uint64_t available = size;
    if (has_budget && size > 0) {
        const uint64_t used = budget.heapUsage[heap];
        available = budget.heapBudget[heap] > used ? budget.heapBudget[heap] - used : 0;
    }
    if (device.getProperties().deviceType == vk::PhysicalDeviceType::eCpu) {
        available = std::min(available, host_memory_available());
    }
    return available;
}

std::vector<ListedDevice> list_devices() {
    std::vector<ListedDevice> list;
    for (vk::PhysicalDevice device : vulkan_instance().enumeratePhysicalDevices()) {
        list.push_back({device, describe(device)});
    }
    if (list.empty()) {
        fail(KPX_NO_VULKAN, "the Vulkan drivers found no device");
    }
    std::stable_sort(list.begin(), list.end(),
                     [](const ListedDevice &a, const ListedDevice &b) { return a.info.type < b.info.type; });
    return list;
}

} // namespace kpx
