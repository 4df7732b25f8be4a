// The kernel registry: which variant of a family this device runs, and its
// pipelines, built on first use and shared by all streams.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include <vulkan/vulkan.hpp>

#include "runtime/embedded.hpp"
#include "runtime/numbered.hpp"
#include "runtime/pipeline_cache.hpp"

namespace kpx {

class Device;

// Set 0 has that many storage buffers; every pipeline of one count shares it.
struct Layout {
    vk::DescriptorSetLayout set;
    vk::PipelineLayout pipeline;
    uint32_t bindings = 0;
};

struct Pipeline {
    Numbered<vk::Pipeline> handle;
    Layout layout;
};

// Values of specialization constants 0, 1, ….
struct SpecConstants {
    static constexpr uint32_t kMost = 24;
    std::array<uint32_t, kMost> values{};
    uint32_t count = 0;
};

class Kernels {
  public:
    explicit Kernels(Device &device);
    ~Kernels();
    Kernels(const Kernels &) = delete;
    Kernels &operator=(const Kernels &) = delete;

    // The best variant that this device can run, or nullptr.
    const EmbeddedKernel *find(std::string_view kernel) const;
    // The pipeline of that variant; lives as long as the device.
    const Pipeline &pipeline(const EmbeddedKernel &kernel, const SpecConstants &spec, uint32_t bindings);

    // For user code: layouts are shared, the pipeline is the caller's to destroy.
    Layout layout(uint32_t bindings, uint32_t push_bytes);
    Numbered<vk::Pipeline> build(vk::ShaderModule module, const SpecConstants &spec, const Layout &layout);
    vk::ShaderModule load(const uint32_t *spirv, size_t bytes);

    uint64_t pipelines_built() const { return built_; }
    void save_cache();

  private:
    struct Key {
        const EmbeddedKernel *kernel;
        uint32_t bindings;
        SpecConstants spec;
        bool operator==(const Key &other) const;
    };
    struct KeyHash {
        size_t operator()(const Key &key) const;
    };
    vk::ShaderModule module(const EmbeddedKernel &kernel);

    Device &device_;
    PipelineCache cache_;
    std::map<std::string_view, const EmbeddedKernel *> chosen_; // fixed once constructed
    std::mutex mutex_;                                          // guards the maps below
    std::map<std::pair<uint32_t, uint32_t>, Layout> layouts_;
    std::unordered_map<const EmbeddedKernel *, vk::ShaderModule> modules_;
    std::unordered_map<Key, Pipeline, KeyHash> pipelines_;
    std::atomic<uint64_t> built_{0};
    std::atomic<uint64_t> saved_{0}; // pipelines_built when the cache was saved
};

} // namespace kpx
