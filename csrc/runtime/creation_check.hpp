// What the shim changes between Kompute and the driver.
//
// Kompute drops the results of the Vulkan calls that create a tensor or a
// sequence, and goes on with null handles. We own the dispatcher that these
// calls go through, so we watch them there: while a CreationCheck lives, this
// thread's failures are remembered, calls that would use a null handle are not
// passed on, and what a failed constructor left behind is freed.
#pragma once

#include <vulkan/vulkan.hpp>

namespace kpx {

// Installs the watching functions in the dispatcher, in front of the existing
// ones. Call it after init(instance); calling it again does nothing.
void install_creation_hooks();

class CreationCheck {
  public:
    enum class Memory { any, cached };

    // cached: host memory is taken from a cached type if there is one, since the
    // host will read it; Kompute takes the first that is visible and coherent.
    explicit CreationCheck(vk::Device device, Memory host_memory = Memory::any);
    ~CreationCheck(); // frees what was created, unless done
    CreationCheck(const CreationCheck &) = delete;
    CreationCheck &operator=(const CreationCheck &) = delete;

    // Keeps what was created; throws the first failure as an Error.
    void done(const char *what);

    // Throws the first failure, if any; what was created is freed.
    void rethrow(const char *what) const;

    void note(VkResult result);

    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    VkCommandPool pool = VK_NULL_HANDLE;
    bool prefer_cached;

  private:
    vk::Device device_;
    VkResult first_ = VK_SUCCESS;
};

// While it lives, command buffers that this thread begins may be submitted again
// while they run, which kp::Sequence does not ask for.
class RecordedForMany {
  public:
    explicit RecordedForMany(bool wanted);
    ~RecordedForMany();
    RecordedForMany(const RecordedForMany &) = delete;
    RecordedForMany &operator=(const RecordedForMany &) = delete;
};

} // namespace kpx
