#include "runtime/creation_check.hpp"

#include <algorithm>

#include "abi/error.hpp"
#include "runtime/vulkan_loader.hpp"

namespace kpx {

namespace {

thread_local CreationCheck *watching = nullptr;
thread_local bool recorded_for_many = false;

// The dispatcher's own entries.
struct {
    PFN_vkCreateBuffer create_buffer;
    PFN_vkGetBufferMemoryRequirements buffer_requirements;
    PFN_vkAllocateMemory allocate_memory;
    PFN_vkBindBufferMemory bind_memory;
    PFN_vkMapMemory map_memory;
    PFN_vkGetPhysicalDeviceMemoryProperties memory_properties;
    PFN_vkCreateCommandPool create_pool;
    PFN_vkAllocateCommandBuffers allocate_commands;
    PFN_vkFreeCommandBuffers free_commands;
    PFN_vkBeginCommandBuffer begin_commands;
} real;

VkResult noted(VkResult result) {
    if (watching != nullptr) {
        watching->note(result);
    }
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo *info,
                                             const VkAllocationCallbacks *callbacks, VkBuffer *out) {
    VkBufferCreateInfo changed = *info;
    changed.usage |=
        VK_BUFFER_USAGE_TRANSFER_DST_BIT; // recordings fill some (recording.cpp); Kompute would not allow it
    VkResult result = noted(real.create_buffer(device, &changed, callbacks, out));
    if (watching != nullptr && result == VK_SUCCESS) {
        watching->buffer = *out;
    }
    return result;
}

VKAPI_ATTR void VKAPI_CALL buffer_requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements *out) {
    if (buffer == VK_NULL_HANDLE) {
        *out = VkMemoryRequirements{}; // no memory type fits, so Kompute throws
        return;
    }
    real.buffer_requirements(device, buffer, out);
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo *info,
                                               const VkAllocationCallbacks *callbacks, VkDeviceMemory *out) {
    VkResult result = noted(real.allocate_memory(device, info, callbacks, out));
    if (result != VK_SUCCESS) {
        *out = VK_NULL_HANDLE;
    } else if (watching != nullptr) {
        watching->memory = *out;
    }
    return result;
}

// Kompute calls these two through overloads that throw, so an error is enough.
VKAPI_ATTR VkResult VKAPI_CALL bind_memory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                                           VkDeviceSize offset) {
    if (buffer == VK_NULL_HANDLE || memory == VK_NULL_HANDLE) {
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    return noted(real.bind_memory(device, buffer, memory, offset));
}

VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                          VkDeviceSize size, VkMemoryMapFlags flags, void **out) {
    if (memory == VK_NULL_HANDLE) {
        return VK_ERROR_MEMORY_MAP_FAILED;
    }
    const VkResult result = real.map_memory(device, memory, offset, size, flags, out);
    return noted(result == VK_SUCCESS && *out == nullptr ? VK_ERROR_MEMORY_MAP_FAILED : result);
}

// Limits the number of types to what the array can hold, whatever the driver says. If cached memory is preferred and
// there is some, hides every other type from Kompute's search.
VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties *out) {
    real.memory_properties(device, out);
    out->memoryTypeCount = std::min(out->memoryTypeCount, VK_MAX_MEMORY_TYPES);
    if (watching == nullptr || !watching->prefer_cached) {
        return;
    }
    const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    const VkMemoryPropertyFlags cached = host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    bool found = false;
    for (uint32_t i = 0; i < out->memoryTypeCount; i++) {
        found = found || (out->memoryTypes[i].propertyFlags & cached) == cached;
    }
    for (uint32_t i = 0; found && i < out->memoryTypeCount; i++) {
        if ((out->memoryTypes[i].propertyFlags & cached) != cached) {
            out->memoryTypes[i].propertyFlags = 0;
        }
    }
}

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo *info,
                                           const VkAllocationCallbacks *callbacks, VkCommandPool *out) {
    VkResult result = noted(real.create_pool(device, info, callbacks, out));
    if (result != VK_SUCCESS) {
        *out = VK_NULL_HANDLE;
    } else if (watching != nullptr) {
        watching->pool = *out;
    }
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                                 VkCommandBuffer *out) {
    if (info->commandPool == VK_NULL_HANDLE) {
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    return noted(real.allocate_commands(device, info, out));
}

VKAPI_ATTR void VKAPI_CALL free_commands(VkDevice device, VkCommandPool pool, uint32_t count,
                                         const VkCommandBuffer *buffers) {
    if (pool != VK_NULL_HANDLE) {
        real.free_commands(device, pool, count, buffers);
    }
}

VKAPI_ATTR VkResult VKAPI_CALL begin_commands(VkCommandBuffer commands, const VkCommandBufferBeginInfo *info) {
    VkCommandBufferBeginInfo changed = *info;
    if (recorded_for_many) {
        changed.flags |= VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    }
    return real.begin_commands(commands, &changed);
}

template <typename Fn> void hook(Fn &entry, Fn &original, Fn replacement) {
    if (entry != replacement) {
        original = entry;
        entry = replacement;
    }
}

} // namespace

void install_creation_hooks() {
    auto &table = VULKAN_HPP_DEFAULT_DISPATCHER;
    hook(table.vkCreateBuffer, real.create_buffer, create_buffer);
    hook(table.vkGetBufferMemoryRequirements, real.buffer_requirements, buffer_requirements);
    hook(table.vkAllocateMemory, real.allocate_memory, allocate_memory);
    hook(table.vkBindBufferMemory, real.bind_memory, bind_memory);
    hook(table.vkMapMemory, real.map_memory, map_memory);
    hook(table.vkGetPhysicalDeviceMemoryProperties, real.memory_properties, memory_properties);
    hook(table.vkCreateCommandPool, real.create_pool, create_pool);
    hook(table.vkAllocateCommandBuffers, real.allocate_commands, allocate_commands);
    hook(table.vkFreeCommandBuffers, real.free_commands, free_commands);
    hook(table.vkBeginCommandBuffer, real.begin_commands, begin_commands);
}

CreationCheck::CreationCheck(vk::Device device, Memory host_memory)
    : prefer_cached(host_memory == Memory::cached), device_(device) {
    watching = this;
}

CreationCheck::~CreationCheck() {
    watching = nullptr;
    if (buffer != VK_NULL_HANDLE) {
        device_.destroyBuffer(buffer);
    }
    if (memory != VK_NULL_HANDLE) {
        device_.freeMemory(memory);
    }
    if (pool != VK_NULL_HANDLE) {
        device_.destroyCommandPool(pool);
    }
}

void CreationCheck::note(VkResult result) {
    if (first_ == VK_SUCCESS) {
        first_ = result;
    }
}

void CreationCheck::done(const char *what) {
    buffer = VK_NULL_HANDLE; // from here on Kompute's object owns them, failed or not
    memory = VK_NULL_HANDLE;
    pool = VK_NULL_HANDLE;
    check(vk::Result(first_), what);
}

void CreationCheck::rethrow(const char *what) const {
    check(vk::Result(first_), what);
}

RecordedForMany::RecordedForMany(bool wanted) {
    recorded_for_many = wanted;
}

RecordedForMany::~RecordedForMany() {
    recorded_for_many = false;
}

} // namespace kpx
