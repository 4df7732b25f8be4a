// Stands in for the Vulkan loader (KOMPUTE_GO_VULKAN_LIBRARY) and hands every call
// through to the real one, which it opens. It counts the calls of each function,
// and makes one of them fail, or give a false answer, if the control file says so
// (KOMPUTE_GO_FAULT_CONTROL).
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include <vulkan/vulkan_core.h>

#include "control.hpp"
#include "functions.hpp"
#include "lies.hpp"

namespace {

[[noreturn]] void die(const char *what) {
    fprintf(stderr, "fault loader: %s\n", what);
    abort();
}

struct Row {
    const char *name;
    bool returns_result;
    PFN_vkVoidFunction wrapper;
};
extern const Row rows[kFunctions];

// "vkCreateInstance -3" makes the first call of that function fail: a call that comes
// before a test can use the control file. "vkQueueSubmit -4 20" makes the 20th fail,
// in a program that is not the test itself.
void arm_from_environment(Control &control) {
    const char *start = getenv("KOMPUTE_GO_FAULT_START");
    char name[64];
    int result = 0;
    unsigned long long from = 1;
    if (start == nullptr || sscanf(start, "%63s %d %llu", name, &result, &from) < 2) {
        return;
    }
    for (uint32_t i = 0; i < kFunctions; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            control.from = from;
            control.times = 1;
            control.result = result;
            control.function = i;
        }
    }
}

// Without a control file the loader would be useless.
Control *map_control() {
    const char *path = getenv("KOMPUTE_GO_FAULT_CONTROL");
    if (path == nullptr) {
        die("KOMPUTE_GO_FAULT_CONTROL is not set");
    }
    const size_t size = sizeof(Control) + kFunctions * sizeof(Counted);
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, off_t(size)) != 0) {
        die("cannot write the control file");
    }
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) {
        die("cannot map the control file");
    }
    auto *control = static_cast<Control *>(memory);
    control->function = -1;
    control->lie[0] = 0;
    control->functions = kFunctions;
    control->version = kControlVersion;
    for (uint32_t i = 0; i < kFunctions; i++) {
        Counted &counted = control->counted[i];
        snprintf(counted.name, sizeof counted.name, "%s", rows[i].name);
        counted.returns_result = rows[i].returns_result;
        counted.calls = 0;
    }
    arm_from_environment(*control);
    control->magic = kControlMagic;
    return control;
}

Control &control() {
    static Control *const mapped = map_control();
    return *mapped;
}

// Counts a call, and returns the result that replaces the call, or VK_SUCCESS if it is to be made.
VkResult note(Function function) {
    Control &c = control();
    const uint64_t call = ++c.counted[function].calls;
    if (c.function.load() != int64_t(function)) {
        return VK_SUCCESS;
    }
    const uint64_t from = c.from;
    if (call < from || call - from >= c.times) {
        return VK_SUCCESS;
    }
    c.failed++;
    return VkResult(c.result.load());
}

// Whether the call is swallowed, because the device hangs.
bool hangs(Function function) {
    const std::atomic<uint64_t> &hanging = control().hangs;
    if (function == k_vkQueueWaitIdle || function == k_vkDeviceWaitIdle) {
        while (hanging != 0) {
            usleep(1000);
        }
    }
    return function == k_vkQueueSubmit && hanging != 0;
}

// One function of the API. All devices and instances share it, and `real` is the
// real loader's own entry, which tells them apart.
template <Function F, typename Pfn> struct Wrapped;
template <Function F, typename R, typename... Args> struct Wrapped<F, R(VKAPI_PTR *)(Args...)> {
    static inline R(VKAPI_PTR *real)(Args...) = nullptr;
    static constexpr bool kReturnsResult = std::is_same_v<R, VkResult>;
    static VKAPI_ATTR R VKAPI_CALL call(Args... args) {
        const VkResult failure = note(F);
        if constexpr (kReturnsResult) {
            if (failure != VK_SUCCESS || hangs(F)) {
                return failure;
            }
        }
        const Lies lies(control());
        if constexpr (std::is_void_v<R>) {
            real(args...);
            lie(lies, Of<F>(), args...);
        } else {
            const R result = real(args...);
            lie(lies, Of<F>(), args...);
            return result;
        }
    }
};

void set_real(Function function, PFN_vkVoidFunction real) {
    switch (function) {
#define FUNCTION(name)                                                                                                 \
    case k_##name:                                                                                                     \
        Wrapped<k_##name, PFN_##name>::real = reinterpret_cast<PFN_##name>(real);                                      \
        break;
#include "functions.inc"
#undef FUNCTION
    default:
        break;
    }
}

const Row rows[kFunctions] = {
#define FUNCTION(name)                                                                                                 \
    {#name, Wrapped<k_##name, PFN_##name>::kReturnsResult,                                                             \
     reinterpret_cast<PFN_vkVoidFunction>(Wrapped<k_##name, PFN_##name>::call)},
#include "functions.inc"
#undef FUNCTION
};

PFN_vkGetInstanceProcAddr open_real() {
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        die(dlerror());
    }
    return reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
}

PFN_vkVoidFunction wrap(std::string_view name, PFN_vkVoidFunction real) {
    static const auto index = [] {
        std::unordered_map<std::string_view, Function> map;
        for (uint32_t i = 0; i < kFunctions; i++) {
            map.emplace(rows[i].name, Function(i));
        }
        return map;
    }();
    const auto found = index.find(name);
    if (real == nullptr || found == index.end()) {
        return real;
    }
    set_real(found->second, real);
    return rows[found->second].wrapper;
}

VkInstance last_instance = VK_NULL_HANDLE;

} // namespace

extern "C" {

// The loader asks for an instance only for functions that need one, so a function
// that was obtained with it works for every device as well.
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice, const char *name);

__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name) {
    static const PFN_vkGetInstanceProcAddr real = open_real();
    control();
    if (strcmp(name, "vkGetInstanceProcAddr") == 0) {
        return reinterpret_cast<PFN_vkVoidFunction>(vkGetInstanceProcAddr);
    }
    if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
        return reinterpret_cast<PFN_vkVoidFunction>(vkGetDeviceProcAddr);
    }
    if (instance != VK_NULL_HANDLE) {
        last_instance = instance;
    }
    return wrap(name, real(instance, name));
}

__attribute__((visibility("default"))) VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetDeviceProcAddr(VkDevice,
                                                                                                    const char *name) {
    return vkGetInstanceProcAddr(last_instance, name);
}
}
