// The driver's pipeline cache, kept on disk between runs. A file that cannot be
// read, belongs to another user, was made by another driver or is damaged is
// ignored; failing to save is not an error. New pipelines are saved when none has
// been built for a second, and when the device is closed. KOMPUTE_GO_CACHE_DIR
// names the folder; "off" keeps none.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include <vulkan/vulkan.hpp>

namespace kpx {

class PipelineCache {
  public:
    PipelineCache(vk::Device device, vk::PhysicalDevice physical);
    ~PipelineCache();
    PipelineCache(const PipelineCache &) = delete;
    PipelineCache &operator=(const PipelineCache &) = delete;

    // For building pipelines. Each is to be counted afterwards.
    vk::PipelineCache handle() const { return cache_; }
    void count();
    uint64_t built() const;
    // Saves what was built since the last time.
    void save() noexcept;

  private:
    void save_when_quiet();

    vk::Device device_;
    vk::PipelineCache cache_;
    std::string path_; // empty: not kept

    std::mutex saving_;        // held while the file is written; taken before mutex_
    mutable std::mutex mutex_; // guards what follows
    std::condition_variable changed_;
    uint64_t built_ = 0; // pipelines
    uint64_t saved_ = 0; // built_ when it was saved
    bool closing_ = false;
    std::thread saver_; // started by the first pipeline
};

} // namespace kpx
