#include "runtime/vulkan_loader.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "abi/error.hpp"
#include "runtime/creation_check.hpp"

// Kompute's calls and ours go through this table. Only init(instance) is ever
// called on it: init(device) would tie every call to one device.
VULKAN_HPP_DEFAULT_DISPATCH_LOADER_DYNAMIC_STORAGE

namespace kpx {

namespace {

constexpr const char *kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr uint32_t kApiVersion = VK_API_VERSION_1_3; // the version that we may use; 1.2 is required

std::atomic<uint64_t> message_count{0};

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT *data, void *) {
    message_count++;
    fprintf(stderr, "kompute-go: validation: %s\n", data->pMessage);
    return VK_FALSE;
}

void require_validation_layer() {
    for (const vk::LayerProperties &layer : vk::enumerateInstanceLayerProperties()) {
        if (strcmp(layer.layerName, kValidationLayer) == 0) {
            return;
        }
    }
    fail(KPX_INVALID, "KOMPUTE_GO_VALIDATION is set, but the layer {} is not installed", kValidationLayer);
}

vk::Instance create_instance() {
    vk::ApplicationInfo app("kompute-go", 1, "kompute-go", 1, kApiVersion);
    vk::InstanceCreateInfo info({}, &app);
    const char *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    vk::ValidationFeatureEnableEXT enable = vk::ValidationFeatureEnableEXT::eSynchronizationValidation;
    vk::ValidationFeaturesEXT features(1, &enable);
    if (validation_wanted()) {
        require_validation_layer();
        info.setPEnabledLayerNames(kValidationLayer);
        info.setPEnabledExtensionNames(extension);
        info.pNext = &features;
    }
    vk::Instance instance;
    vk::Result result = vk::createInstance(&info, nullptr, &instance);
    if (result == vk::Result::eErrorIncompatibleDriver) {
        fail(KPX_NO_VULKAN, "no Vulkan driver is installed");
    }
    if (result != vk::Result::eSuccess) {
        fail(KPX_NO_VULKAN, "vkCreateInstance: {}", vk::to_string(result));
    }
    return instance;
}

void listen_to_validation(vk::Instance instance) {
    using Severity = vk::DebugUtilsMessageSeverityFlagBitsEXT;
    using Type = vk::DebugUtilsMessageTypeFlagBitsEXT;
    vk::DebugUtilsMessengerCreateInfoEXT info({}, Severity::eWarning | Severity::eError, Type::eValidation, on_message);
    (void)instance.createDebugUtilsMessengerEXT(info); // lives as long as the instance
}

// The library stays open: the dispatcher points into it.
vk::DynamicLoader *open_library() {
    const char *chosen = getenv("KOMPUTE_GO_VULKAN_LIBRARY");
    const bool standard = chosen == nullptr || *chosen == '\0';
    try {
        return standard ? new vk::DynamicLoader() : new vk::DynamicLoader(chosen);
    } catch (const std::runtime_error &) {
        if (standard) {
            fail(KPX_NO_VULKAN, "libvulkan.so.1 is not installed");
        }
        fail(KPX_NO_VULKAN, "KOMPUTE_GO_VULKAN_LIBRARY: cannot open {}", chosen);
    }
}

vk::Instance start() {
    static vk::DynamicLoader *library = nullptr;
    if (library == nullptr) {
        library = open_library();
    }
    auto get_proc = library->getProcAddress<PFN_vkGetInstanceProcAddr>("vkGetInstanceProcAddr");
    if (get_proc == nullptr) {
        fail(KPX_NO_VULKAN, "libvulkan has no vkGetInstanceProcAddr");
    }
    VULKAN_HPP_DEFAULT_DISPATCHER.init(get_proc);
    if (VULKAN_HPP_DEFAULT_DISPATCHER.vkEnumerateInstanceVersion == nullptr ||
        vk::enumerateInstanceVersion() < VK_API_VERSION_1_2) {
        fail(KPX_NO_VULKAN, "libvulkan is older than Vulkan 1.2");
    }
    vk::Instance instance = create_instance();
    VULKAN_HPP_DEFAULT_DISPATCHER.init(instance);
    install_creation_hooks();
    if (validation_wanted()) {
        listen_to_validation(instance);
    }
    return instance;
}

} // namespace

bool switched_on(const char *variable) {
    const char *value = getenv(variable);
    return value != nullptr && *value != 0 && strcmp(value, "0") != 0;
}

bool validation_wanted() {
    return switched_on("KOMPUTE_GO_VALIDATION");
}

vk::Instance vulkan_instance() {
    static std::mutex mutex;
    static vk::Instance instance;
    std::lock_guard<std::mutex> lock(mutex);
    if (!instance) {
        instance = start();
    }
    return instance;
}

uint64_t validation_messages() {
    return message_count;
}

kpx_result result_code(vk::Result result) {
    switch (result) {
    case vk::Result::eErrorOutOfHostMemory:
    case vk::Result::eErrorOutOfDeviceMemory:
    case vk::Result::eErrorOutOfPoolMemory:
    case vk::Result::eErrorTooManyObjects:
    case vk::Result::eErrorFragmentedPool:
    case vk::Result::eErrorMemoryMapFailed:
        return KPX_OUT_OF_MEMORY;
    case vk::Result::eErrorDeviceLost:
        return KPX_DEVICE_LOST;
    case vk::Result::eTimeout:
        return KPX_TIMEOUT;
    case vk::Result::eErrorInitializationFailed:
    case vk::Result::eErrorIncompatibleDriver:
    case vk::Result::eErrorExtensionNotPresent:
    case vk::Result::eErrorFeatureNotPresent:
    case vk::Result::eErrorLayerNotPresent:
        return KPX_NO_VULKAN;
    default:
        return KPX_DRIVER;
    }
}

void check(vk::Result result, const char *what) {
    if (result != vk::Result::eSuccess) {
        fail(result_code(result), "{}: {}", what, vk::to_string(result));
    }
}

} // namespace kpx
