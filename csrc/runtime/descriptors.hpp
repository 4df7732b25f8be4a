// Descriptor sets for recordings. A recording owns the pools that its sets come
// from; when it is done, they are reset for the next one.
#pragma once

#include <mutex>
#include <vector>

#include <vulkan/vulkan.hpp>

namespace kpx {

class Device;

class DescriptorPools {
  public:
    explicit DescriptorPools(Device &device) : device_(device) {}
    ~DescriptorPools();

    static constexpr uint32_t kSets = 64; // of one pool
    static constexpr uint32_t kDescriptors = 512;

    vk::DescriptorPool take();
    void give_back(std::vector<vk::DescriptorPool> &pools) noexcept;

  private:
    Device &device_;
    std::mutex mutex_;
    std::vector<vk::DescriptorPool> free_; // has room for all that were made
    size_t made_ = 0;
};

// Sets of one recording.
class DescriptorArena {
  public:
    explicit DescriptorArena(Device &device) : device_(device) {}
    ~DescriptorArena();
    DescriptorArena(const DescriptorArena &) = delete;
    DescriptorArena &operator=(const DescriptorArena &) = delete;

    // One set for each layout and number of descriptors, with one driver call per pool.
    struct Wanted {
        vk::DescriptorSetLayout layout;
        uint32_t descriptors;
    };
    std::vector<vk::DescriptorSet> allocate(const std::vector<Wanted> &wanted);

  private:
    Device &device_;
    std::vector<vk::DescriptorPool> pools_;
};

} // namespace kpx
