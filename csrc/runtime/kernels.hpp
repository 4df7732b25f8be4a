// The kernel registry: the variants of each kernel that this device can run, and their pipelines, built on first use
// and shared by all streams. A variant that the driver refuses with some constants gives way to the next one in the
// calls that need them, and in all calls once it was refused for the same reason with others.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <vulkan/vulkan.hpp>

#include "abi/error.hpp"
#include "abi/kpx.h"
#include "runtime/embedded.hpp"
#include "runtime/missing.hpp"
#include "runtime/numbered.hpp"
#include "runtime/pipeline_cache.hpp"

namespace kpx {

class Device;

// Set 0 has that many storage buffers; all pipelines with the same number share the layout.
struct Layout {
    vk::DescriptorSetLayout set;
    vk::PipelineLayout pipeline;
    uint32_t bindings = 0;
};

// One variant of a kernel on one device.
struct Variant {
    explicit Variant(const EmbeddedKernel &embedded) : code(&embedded) {}

    const EmbeddedKernel *code;
    std::atomic<uint32_t> state{KPX_VARIANT_USABLE};
    std::atomic<uint64_t> calls{0}; // dispatches that were submitted
    std::string reason;             // why it is not usable, or was refused; guarded by the registry's mutex
};

struct Pipeline {
    Numbered<vk::Pipeline> handle; // null: not built yet
    Layout layout;
    Variant *variant = nullptr; // owned by the device; nullptr: of the caller's own shader
};

using Variants = std::vector<const Variant *>;

// A kernel that a lowering chose cannot be built: a lowering that starts again without these variants chooses another
// one.
class KernelRefused : public Error {
  public:
    KernelRefused(Variants variants, const std::string &reason)
        : Error(KPX_UNSUPPORTED, reason), variants_(std::move(variants)) {}
    const Variants &variants() const { return variants_; }

  private:
    Variants variants_;
};

// The values of specialization constants 0, 1, ….
struct SpecConstants {
    static constexpr uint32_t kMost = 28;
    std::array<uint32_t, kMost> values{};
    uint32_t count = 0;
};

// What makes one pipeline of a device different from another.
struct PipelineKey {
    Variant *variant;
    uint32_t bindings;
    SpecConstants spec;

    bool operator==(const PipelineKey &other) const;
    struct Hash {
        size_t operator()(const PipelineKey &key) const;
    };
};

// The subgroups that a pipeline requests. Without a request, a driver may use smaller subgroups than the size that
// the shader reads.
struct SubgroupRequest {
    uint32_t size = 0; // 0: no request
    bool full = false; // every lane has a shader invocation
};

// The names of all variants, independent of any device.
kpx_variant describe(const EmbeddedKernel &kernel);

class Kernels {
  public:
    // disabled: variants to leave out, each as kernel.variant, separated by commas. Throws KPX_INVALID if there is none
    // of that name.
    Kernels(Device &device, std::string_view disabled);
    ~Kernels();
    Kernels(const Kernels &) = delete;
    Kernels &operator=(const Kernels &) = delete;

    // The best usable variant that is not among `without`, or nullptr.
    Variant *best(std::string_view kernel, const Variants &without = {}) const;
    // The pipeline of that variant, which lives as long as the device. If it would have to be built, `making` decides.
    // Throws KernelRefused if there is no variant or the driver refuses it.
    Pipeline pipeline(std::string_view kernel, const SpecConstants &spec, uint32_t bindings,
                      const Variants &without = {}, Making making = Making::now);

    // The pipeline of a kernel without constants that nothing replaces. What the driver answers is an error of the call
    // and no refusal: the next call tries again.
    Pipeline irreplaceable(std::string_view kernel, uint32_t bindings);

    // Builds it if there is none yet. Throws KernelRefused if the driver refuses it; that is noted, unless it is a form
    // that overlaps (graph/overlap.hpp), since that says nothing about other forms.
    Pipeline build(const PipelineKey &key, bool overlaps);

    // The embedded variants, in their order, as this device has them.
    std::vector<kpx_variant> list();
    uint64_t refusals() const {
        return refusals_;
    } // the number of variants that the driver has refused, with some constants or all

    // For the caller's own shader: layouts are shared, and the caller destroys the pipeline.
    Layout layout(uint32_t bindings, uint32_t push_bytes);
    Numbered<vk::Pipeline> build(vk::ShaderModule module, const SpecConstants &spec, const Layout &layout,
                                 SubgroupRequest subgroups);
    vk::ShaderModule load(const uint32_t *spirv, size_t bytes);

    uint64_t pipelines_built() const { return cache_.built(); }
    void save_cache();

  private:
    using Family = std::vector<Variant *>; // the best first

    void disable(std::string_view names);
    // Of the kernel's best usable variant. Throws KernelRefused if there is none.
    PipelineKey key(std::string_view kernel, const SpecConstants &spec, uint32_t bindings,
                    const Variants &without) const;
    SubgroupRequest subgroups_of(const PipelineKey &key) const;
    Pipeline built(const PipelineKey &key, Making making);
    void check_threads(uint32_t threads) const; // of a workgroup
    // The same; if the driver refuses it, calls note(reason) and throws KernelRefused.
    template <typename Note> Pipeline not_refused(const PipelineKey &key, Making making, Note note);
    Pipeline noted(const PipelineKey &key, Making making); // the same, noting a refusal
    void note_refusal(const PipelineKey &key, const std::string &reason);
    void build_ahead(const PipelineKey &key);
    vk::UniqueShaderModule load_specialized(const EmbeddedKernel &kernel, const SpecConstants &spec);

    Device &device_;
    PipelineCache cache_;
    bool specialize_;                             // whether drivers get modules without what their constants rule out
    std::deque<Variant> variants_;                // fixed once constructed, except for their states
    std::map<std::string_view, Family> families_; // likewise
    std::atomic<uint64_t> refusals_{0};
    std::mutex mutex_; // guards the maps below
    std::map<std::pair<uint32_t, uint32_t>, Layout> layouts_;
    std::unordered_map<PipelineKey, Pipeline, PipelineKey::Hash> pipelines_;
    std::unordered_set<PipelineKey, PipelineKey::Hash> refused_;
};

} // namespace kpx
