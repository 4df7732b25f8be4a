// A timeline semaphore: the completion object of a stream. Kept alive by the
// stream and by the work of others that waits on it.
#pragma once

#include <atomic>
#include <memory>

#include <vulkan/vulkan.hpp>

namespace kpx {

class Device;

class Timeline {
  public:
    explicit Timeline(std::shared_ptr<Device> device);
    ~Timeline();
    Timeline(const Timeline &) = delete;
    Timeline &operator=(const Timeline &) = delete;

    vk::Semaphore semaphore() const { return semaphore_; }
    // The value that is reached when all submitted work is done.
    uint64_t submitted() const { return submitted_; }
    void set_submitted(uint64_t value) { submitted_ = value; }
    // The value reached so far.
    uint64_t completed() const;
    // Blocks until value is reached; throws KPX_TIMEOUT or KPX_DEVICE_LOST. Holds no lock.
    void wait(uint64_t value, uint64_t timeout_ns) const;

  private:
    std::shared_ptr<Device> device_;
    vk::Semaphore semaphore_;
    std::atomic<uint64_t> submitted_{0};
};

} // namespace kpx
