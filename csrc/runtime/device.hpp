// One opened device: its queues, memory, kernels and streams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <vulkan/vulkan.hpp>

#include "abi/error.hpp"
#include "cache/change_log.hpp"
#include "cache/host_memory.hpp"
#include "fusion/passes.hpp"
#include "ops/op.hpp"
#include "runtime/clock.hpp"
#include "runtime/features.hpp"
#include "runtime/memory.hpp"
#include "runtime/tally.hpp"

namespace kpx {

class DescriptorPools;
class Kernels;
class Semaphores;
class Sequences;
class Staging;
class Stream;
class Watchdog;

// A compute queue. Vulkan allows one caller at a time.
struct Queue {
    std::shared_ptr<vk::Queue> handle;
    uint32_t family = 0;
    uint32_t timestamp_bits = 0; // that count; 0: it writes none
    std::mutex mutex;
};

class Device : public std::enable_shared_from_this<Device> {
  public:
    static std::shared_ptr<Device> open(uint32_t index, const kpx_device_options &options);
    ~Device();

    vk::Device handle() const { return *device_; }
    vk::PhysicalDevice physical() const { return *physical_; }
    const std::shared_ptr<vk::Device> &shared_handle() const { return device_; }
    const std::shared_ptr<vk::PhysicalDevice> &shared_physical() const { return physical_; }
    const DeviceTraits &traits() const { return traits_; }
    const Features &features() const { return features_; }
    const SubgroupSizes &subgroup_sizes() const { return subgroup_sizes_; }
    const vk::PhysicalDeviceLimits &limits() const { return limits_; }
    const PassSet &passes() const { return passes_; }                 // that regions go through
    uint64_t binding_alignment() const { return binding_alignment_; } // bytes, where a binding may start

    Memory &memory() { return *memory_; }
    Kernels &kernels() { return *kernels_; }
    Staging &staging() { return *staging_; }
    DescriptorPools &descriptors() { return *descriptors_; }
    Semaphores &semaphores() { return *semaphores_; }
    Sequences &sequences() { return *sequences_; }
    DeviceClock &clock() { return clock_; }

    HostPool &host_memory() { return *host_memory_; }

    // Guards the tensor cache, and of all streams what is pending, held back or captured: an op looks at tensors that
    // several streams use, and may have to submit another stream's work. It is not held while waiting for the device,
    // nor while an op's kernels are compiled.
    std::mutex &mutex() { return state_mutex_; }
    // Notified, with the mutex held, when a tensor's content has been moved.
    std::condition_variable &moved() { return moved_; }
    // Changes of tensors that regions use. The caller holds the mutex.
    ChangeLog &changes() { return changes_; }
    // Submissions that gates hold back. The caller holds the mutex.
    uint64_t held = 0;

    std::vector<std::shared_ptr<Stream>> streams(); // that are alive

    // Queues are given to streams in turn.
    Queue &next_queue();
    uint64_t next_stream() { return next_stream_++; }
    void add_stream(const std::shared_ptr<Stream> &stream);
    // Releases what finished work of any stream still holds.
    void collect();
    // Waits until all work is done that the driver has. The caller does not hold the mutex.
    void await_work();
    // Waits until no queue has work, then saves the pipeline cache.
    void settle();

    // Waits until the queue has no work, also on a lost device, whose work ends
    // in finite time. If the driver cannot wait, the device counts as hung.
    void drain(Queue &queue) noexcept;

    // Once lost, a device answers every later call with KPX_DEVICE_LOST, and
    // waiters wake up.
    void mark_lost() { lost_ = true; }
    bool lost() const { return lost_; }
    // Whether the device is lost while its work may still be running: what that work uses is never freed. hang()
    // names the work.
    void mark_hung(std::string what);
    void mark_hung_queue() noexcept; // also of a device that is lost already
    bool hung() const { return hung_; }
    const char *hang() const { return hung_ ? hang_.c_str() : ""; }
    Watchdog &watchdog() { return *watchdog_; }
    // Whether dispatches of regions may overlap (graph/overlap.hpp): it was opened for that, and passed the check.
    bool overlaps() const { return overlaps_; }
    void keep_barriers() { overlaps_ = false; }
    // Keeps an object, and with it the device, until the process ends.
    void keep_forever(std::shared_ptr<const void> what);
    // Frees all of that, for a test that knows that the work has ended or never began.
    static void free_kept();
    void check_alive() const;
    // check(), which also records a lost device.
    void check(vk::Result result, const char *what);

    // What callers hold.
    void count_tensor(int64_t bytes, int64_t tensors);
    void count_upload(uint64_t bytes);
    // The caller holds the mutex of the cache.
    void count_lookup(bool hit) { (hit ? cache_hits_ : cache_misses_)++; }
    void count_allocation() { allocations_++; }
    kpx_device_stats stats();

  private:
    Device(vk::PhysicalDevice physical, const kpx_device_options &options);
    void leak();
    void create_handle(const FeatureChain &chain, const Mask &mask);
    void get_queues();
    void fill_traits();

    std::shared_ptr<vk::PhysicalDevice> physical_;
    std::shared_ptr<vk::Device> device_;
    Features features_;
    SubgroupSizes subgroup_sizes_;
    DeviceTraits traits_{};
    vk::PhysicalDeviceLimits limits_;
    const PassSet passes_;
    uint64_t binding_alignment_ = 0;
    std::vector<std::unique_ptr<Queue>> queues_;
    std::atomic<uint32_t> next_queue_{0};
    std::atomic<uint64_t> next_stream_{0};
    std::atomic<bool> lost_{false}, hung_{false}, overlaps_{false};
    std::string hang_;                                                                    // written before hung_
    std::string hung_queue_ = "the device may hang: the driver cannot wait for its work"; // made in advance
    std::mutex state_mutex_;
    std::condition_variable moved_;
    ChangeLog changes_;
    std::shared_ptr<HostPool> host_memory_ = std::make_shared<HostPool>();
    std::atomic<uint64_t> allocations_{0}, uploads_{0}, upload_bytes_{0};
    std::atomic<uint64_t> live_tensors_{0}, live_bytes_{0}, peak_bytes_{0}; // of open tensors
    Tally cache_hits_, cache_misses_;
    DeviceClock clock_;
    std::unique_ptr<Memory> memory_;
    std::unique_ptr<Kernels> kernels_;
    std::unique_ptr<Staging> staging_;
    std::unique_ptr<DescriptorPools> descriptors_;
    std::unique_ptr<Semaphores> semaphores_;
    std::unique_ptr<Sequences> sequences_;
    std::unique_ptr<Watchdog> watchdog_;
    std::mutex mutex_; // guards what follows
    std::vector<std::weak_ptr<Stream>> streams_;
};

// make(), and if memory runs out, again when all work is done that the driver has: it may hold memory that its owner
// has closed. The caller does not hold the device's mutex.
template <typename Make> auto or_when_done(Device &device, Make make) -> decltype(make()) {
    try {
        return make();
    } catch (const Error &e) {
        if (e.code != KPX_OUT_OF_MEMORY) {
            throw;
        }
    }
    device.await_work();
    return make();
}

} // namespace kpx
