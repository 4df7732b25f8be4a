// The driver's pipeline cache, kept on disk between runs. A file that cannot be
// read, was made by another driver or is damaged counts as none; failing to
// save is no error. KOMPUTE_GO_CACHE_DIR names the folder; "off" keeps none.
#pragma once

#include <string>

#include <vulkan/vulkan.hpp>

namespace kpx {

class PipelineCache {
  public:
    PipelineCache(vk::Device device, vk::PhysicalDevice physical);
    ~PipelineCache();
    PipelineCache(const PipelineCache &) = delete;
    PipelineCache &operator=(const PipelineCache &) = delete;

    vk::PipelineCache handle() const { return cache_; }
    void save() noexcept;

  private:
    vk::Device device_;
    vk::PipelineCache cache_;
    std::string path_; // empty: not kept
};

} // namespace kpx
