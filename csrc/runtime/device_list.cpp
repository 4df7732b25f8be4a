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

std::string unusable_reason(vk::PhysicalDevice device, uint32_t api_version) {
    if (api_version < VK_API_VERSION_1_2) {
        return formatted("it offers Vulkan {}.{}, and 1.2 is needed", VK_API_VERSION_MAJOR(api_version),
                         VK_API_VERSION_MINOR(api_version));
    }
    if (compute_family(device) < 0) {
        return "it has no compute queue";
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
        info.least_subgroup_size = chain.subgroup_sizes().least;
        info.most_subgroup_size = chain.subgroup_sizes().most;
    }
    return info;
}

} // namespace

int compute_family(vk::PhysicalDevice device) {
    const auto families = device.getQueueFamilyProperties();
    int found = -1;
    for (size_t i = 0; i < families.size(); i++) {
        const vk::QueueFlags flags = families[i].queueFlags;
        if (!(flags & vk::QueueFlagBits::eCompute)) {
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
    const uint64_t whole_words = UINT32_MAX & ~uint64_t(255);
    uint64_t bytes = std::min<uint64_t>(properties.properties.limits.maxStorageBufferRange, whole_words);
    return std::min<uint64_t>(bytes, allocation.maxMemoryAllocationSize) & ~uint64_t(3);
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
    for (uint32_t i = 0; i < m.memoryTypeCount; i++) {
        if (m.memoryTypes[i].propertyFlags & vk::MemoryPropertyFlagBits::eDeviceLocal) {
            heap = m.memoryTypes[i].heapIndex; // the type that kp::Tensor takes
            break;
        }
    }
    const uint64_t size = m.memoryHeaps[heap].size;
    if (total != nullptr) {
        *total = size;
    }
    uint64_t available = size;
    if (has_budget) {
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
