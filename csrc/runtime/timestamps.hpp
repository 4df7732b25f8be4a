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

    // Throws what the constructor would.
    static void require(const Queue &queue);

    // Recorded first: forgets what an earlier run wrote.
    void reset(vk::CommandBuffer commands);
    // Recorded: the time when all dispatches before are done.
    void write(vk::CommandBuffer commands);
    // Nanoseconds of the device's clock, of a run that is done. They do not fall, even if the counter wrapped.
    std::vector<uint64_t> read() const;

  private:
    std::shared_ptr<Device> device_;
    uint32_t valid_bits_;
    double period_; // nanoseconds of a tick
    uint32_t room_, written_ = 0;
    vk::QueryPool pool_;
};

} // namespace kpx
