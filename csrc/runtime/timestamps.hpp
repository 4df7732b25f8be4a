// Timestamps that a recording writes while it runs, by the device's clock.
#pragma once

#include <memory>
#include <vector>

#include <vulkan/vulkan.hpp>

namespace kpx {

class Device;
struct Queue;

class Timestamps {
  public:
    // Room for n of them. Throws KPX_UNSUPPORTED if the queue's device writes none.
    Timestamps(std::shared_ptr<Device> device, const Queue &queue, uint32_t n);
    ~Timestamps();
    Timestamps(const Timestamps &) = delete;
    Timestamps &operator=(const Timestamps &) = delete;

    // Throws if the constructor would.
    static void require(const Queue &queue);

    // Recorded first: clears the timestamps of an earlier run.
    void reset(vk::CommandBuffer commands);
    // Recorded: writes the time when all earlier dispatches are done.
    void write(vk::CommandBuffer commands);
    // The timestamps of a finished run, in nanoseconds of the device's clock. They never decrease, even if the
    // counter wrapped.
    std::vector<uint64_t> read() const;

  private:
    std::shared_ptr<Device> device_;
    uint32_t valid_bits_;
    double period_; // nanoseconds of a tick
    uint32_t room_, written_ = 0;
    vk::QueryPool pool_;
};

} // namespace kpx
