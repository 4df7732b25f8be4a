// Answers that no driver should give: lie() changes what a function has returned through
// its pointers. A test chooses one of them by name (Control::lie), and no name none.
#pragma once

#include <cstring>

#include <vulkan/vulkan_core.h>

#include "control.hpp"
#include "functions.hpp"

class Lies {
  public:
    explicit Lies(Control &control) : control_(control) {}

    void operator()(VkPhysicalDeviceMemoryProperties &memory) const {
        constexpr VkMemoryPropertyFlags kHost = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                                VK_MEMORY_PROPERTY_HOST_COHERENT_BIT |
                                                VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
        for (VkMemoryType &type : memory.memoryTypes) {
            type.propertyFlags &= ~(told("no memory for the host") ? kHost : 0u);
            type.propertyFlags &= ~(told("no memory of the device") ? VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT : 0u);
            type.heapIndex = told("heaps that are not there") ? UINT32_MAX : type.heapIndex;
        }
        for (VkMemoryHeap &heap : memory.memoryHeaps) {
            heap.size = told("empty heaps") ? 0 : heap.size;
        }
        if (told("no memory types")) {
            memory = {};
        }
        if (told("memory types without end")) {
            memory.memoryTypeCount = memory.memoryHeapCount = UINT32_MAX;
        }
    }

    void operator()(VkPhysicalDeviceProperties &device) const {
        if (told("limits of 0")) {
            device.limits = {};
        }
        if (told("limits without end")) {
            memset(&device.limits, 0xff, sizeof device.limits);
        }
        if (told("names without end")) {
            memset(device.deviceName, 'x', sizeof device.deviceName);
        }
        if (told("an old device")) {
            device.apiVersion = VK_API_VERSION_1_0;
        }
    }

    void operator()(VkPhysicalDeviceProperties2 &device) const {
        (*this)(device.properties);
        for (auto *next = static_cast<VkBaseOutStructure *>(device.pNext); next != nullptr; next = next->pNext) {
            if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES && told("subgroups of 0")) {
                reinterpret_cast<VkPhysicalDeviceSubgroupProperties *>(next)->subgroupSize = 0;
            }
            if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES && told("names without end")) {
                auto *driver = reinterpret_cast<VkPhysicalDeviceDriverProperties *>(next);
                memset(driver->driverName, 'x', sizeof driver->driverName);
                memset(driver->driverInfo, 'x', sizeof driver->driverInfo);
            }
            if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES && told("limits of 0")) {
                reinterpret_cast<VkPhysicalDeviceMaintenance3Properties *>(next)->maxMemoryAllocationSize = 0;
            }
        }
    }

    void operator()(VkPhysicalDeviceFeatures2 &features) const {
        if (!told("no features")) {
            return;
        }
        features.features = {};
        for (auto *next = static_cast<VkBaseOutStructure *>(features.pNext); next != nullptr; next = next->pNext) {
            if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES) {
                reinterpret_cast<VkPhysicalDeviceVulkan12Features *>(next)->timelineSemaphore = VK_FALSE;
            }
        }
    }

    void families(uint32_t &count, VkQueueFamilyProperties *families) const {
        for (uint32_t i = 0; families != nullptr && i < count; i++) {
            families[i].queueCount = told("families without queues") ? 0 : families[i].queueCount;
        }
        count = told("no queue families") ? 0 : count;
    }

    void operator()(VkMemoryRequirements &buffer) const {
        buffer.memoryTypeBits = told("buffers of no memory type") ? 0 : buffer.memoryTypeBits;
        buffer.size = told("buffers without end") ? VkDeviceSize(1) << 62 : buffer.size;
    }

    bool told(const char *lie) const {
        const bool same = strncmp(control_.lie, lie, sizeof control_.lie) == 0;
        control_.lies += same;
        return same;
    }

  private:
    Control &control_;
};

template <Function F> struct Of {};

// Most functions are honest.
template <Function F, typename... Args> void lie(const Lies &, Of<F>, Args...) {}

inline void lie(const Lies &lies, Of<k_vkGetPhysicalDeviceMemoryProperties>, VkPhysicalDevice,
                VkPhysicalDeviceMemoryProperties *out) {
    lies(*out);
}
inline void lie(const Lies &lies, Of<k_vkGetPhysicalDeviceMemoryProperties2>, VkPhysicalDevice,
                VkPhysicalDeviceMemoryProperties2 *out) {
    lies(out->memoryProperties);
}
inline void lie(const Lies &lies, Of<k_vkGetPhysicalDeviceProperties>, VkPhysicalDevice,
                VkPhysicalDeviceProperties *out) {
    lies(*out);
}
inline void lie(const Lies &lies, Of<k_vkGetPhysicalDeviceProperties2>, VkPhysicalDevice,
                VkPhysicalDeviceProperties2 *out) {
    lies(*out);
}
inline void lie(const Lies &lies, Of<k_vkGetPhysicalDeviceFeatures2>, VkPhysicalDevice,
                VkPhysicalDeviceFeatures2 *out) {
    lies(*out);
}
inline void lie(const Lies &lies, Of<k_vkGetPhysicalDeviceQueueFamilyProperties>, VkPhysicalDevice, uint32_t *count,
                VkQueueFamilyProperties *out) {
    lies.families(*count, out);
}
inline void lie(const Lies &lies, Of<k_vkEnumeratePhysicalDevices>, VkInstance, uint32_t *count, VkPhysicalDevice *) {
    *count = lies.told("no devices") ? 0 : *count;
}
inline void lie(const Lies &lies, Of<k_vkEnumerateDeviceExtensionProperties>, VkPhysicalDevice, const char *,
                uint32_t *count, VkExtensionProperties *) {
    *count = lies.told("no extensions") ? 0 : *count;
}
inline void lie(const Lies &lies, Of<k_vkGetDeviceQueue>, VkDevice, uint32_t, uint32_t, VkQueue *out) {
    *out = lies.told("no queue") ? VK_NULL_HANDLE : *out;
}
inline void lie(const Lies &lies, Of<k_vkGetBufferMemoryRequirements>, VkDevice, VkBuffer, VkMemoryRequirements *out) {
    lies(*out);
}
inline void lie(const Lies &lies, Of<k_vkMapMemory>, VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize,
                VkMemoryMapFlags, void **out) {
    *out = lies.told("memory mapped nowhere") ? nullptr : *out;
}
inline void lie(const Lies &lies, Of<k_vkGetPipelineCacheData>, VkDevice, VkPipelineCache, size_t *bytes, void *) {
    *bytes = lies.told("a pipeline cache without end") ? size_t(1) << 62 : *bytes;
}
inline void lie(const Lies &lies, Of<k_vkGetSemaphoreCounterValue>, VkDevice, VkSemaphore, uint64_t *out) {
    *out = lies.told("counters of 0") ? 0 : *out;
}
inline void lie(const Lies &lies, Of<k_vkGetQueryPoolResults>, VkDevice, VkQueryPool, uint32_t, uint32_t, size_t bytes,
                void *out, VkDeviceSize, VkQueryResultFlags) {
    if (lies.told("times of 0")) {
        memset(out, 0, bytes);
    }
}
