// Timeline semaphores: the completion object of a stream. Kept alive by the
// stream and by the work of others that waits on it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <vulkan/vulkan.hpp>

namespace kpx {

class Device;

// Semaphores of destroyed streams are reused. None is destroyed before the
// device is idle: Mesa's software queue still accesses a semaphore for a moment
// after it has signalled it.
class Semaphores {
  public:
    struct Entry {
        vk::Semaphore handle;
        uint64_t value; // last value signalled or about to be
    };

    explicit Semaphores(Device &device) : device_(device) {}
    ~Semaphores();

    Entry take();
    void give_back(Entry entry) noexcept;

  private:
    Device &device_;
    std::mutex mutex_;
    std::vector<Entry> free_; // has room for all that were made
    size_t made_ = 0;
};

// Values count from 0 for each stream.
class Timeline {
  public:
    explicit Timeline(std::shared_ptr<Device> device);
    ~Timeline();
    Timeline(const Timeline &) = delete;
    Timeline &operator=(const Timeline &) = delete;

    vk::Semaphore semaphore() const { return semaphore_; }
    // The semaphore's value when this stream has reached value.
    uint64_t semaphore_value(uint64_t value) const { return base_ + value; }
    // The value that is reached when all submitted work is done.
    uint64_t submitted() const { return submitted_; }
    void set_submitted(uint64_t value) { submitted_ = value; }
    // The same for work that the driver has received, which is less while some is held back (gate.hpp).
    uint64_t queued() const { return queued_; }
    void set_queued(uint64_t value) { queued_ = value; }
    // The value reached so far.
    uint64_t completed() const;
    // The greatest value that any call has seen.
    uint64_t seen() const { return seen_; }
    // Marks that all submitted work is done and there will be no more.
    void close() { closed_ = true; }
    bool closed() const { return closed_; }
    // Blocks until value is reached; throws KPX_TIMEOUT or KPX_DEVICE_LOST. Holds no lock.
    void wait(uint64_t value, uint64_t timeout_ns) const;

  private:
    std::shared_ptr<Device> device_;
    vk::Semaphore semaphore_;
    uint64_t base_;
    void see(uint64_t value) const;

    std::atomic<uint64_t> submitted_{0}, queued_{0};
    mutable std::atomic<uint64_t> seen_{0};
    std::atomic<bool> closed_{false};
};

} // namespace kpx
