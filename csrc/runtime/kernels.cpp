#include "runtime/kernels.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "abi/guard.hpp"
#include "abi/text.hpp"
#include "runtime/device.hpp"
#include "runtime/spirv_specialized.hpp"

namespace kpx {

constexpr uint32_t kPushBytes = 128; // guaranteed for every device

kpx_variant describe(const EmbeddedKernel &kernel) {
    kpx_variant out{};
    copy_text(out.kernel, kernel.kernel);
    copy_text(out.variant, kernel.variant);
    return out;
}

bool PipelineKey::operator==(const PipelineKey &other) const {
    return variant == other.variant && bindings == other.bindings && spec.count == other.spec.count &&
           memcmp(spec.values.data(), other.spec.values.data(), spec.count * sizeof(uint32_t)) == 0;
}

size_t PipelineKey::Hash::operator()(const PipelineKey &key) const {
    uint64_t hash = reinterpret_cast<uintptr_t>(key.variant) ^ key.bindings;
    for (uint32_t i = 0; i < key.spec.count; i++) {
        hash = (hash ^ key.spec.values[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return size_t(hash);
}

// For bisecting; drivers specialize whole modules, too.
static bool wants_whole_modules() {
    const char *wanted = getenv("KOMPUTE_GO_SPECIALIZE");
    return wanted != nullptr && strcmp(wanted, "0") == 0;
}

Kernels::Kernels(Device &device, std::string_view disabled)
    : device_(device), cache_(device.handle(), device.physical()), specialize_(!wants_whole_modules()) {
    for (uint32_t i = 0; i < embedded_kernel_count; i++) {
        const EmbeddedKernel &kernel = embedded_kernels[i];
        Variant &variant = variants_.emplace_back(kernel);
        if (!device.features().has_all(kernel.features)) {
            variant.state = KPX_VARIANT_MISSING;
            variant.reason = kernel.features;
        }
        families_[kernel.kernel].push_back(&variant);
    }
    disable(disabled);
}

void Kernels::disable(std::string_view names) {
    while (!names.empty()) {
        const std::string_view name = names.substr(0, names.find(','));
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        const auto found = std::find_if(variants_.begin(), variants_.end(), [&](const Variant &v) {
            return name == std::string(v.code->kernel) + "." + v.code->variant;
        });
        if (found == variants_.end()) {
            fail(KPX_INVALID, "no kernel variant {} to disable", std::string(name));
        }
        found->state = KPX_VARIANT_DISABLED;
        found->reason = "disabled";
    }
}

Kernels::~Kernels() {
    const vk::Device device = device_.handle();
    for (auto &entry : pipelines_) {
        device.destroyPipeline(entry.second.handle);
    }
    for (auto &entry : layouts_) {
        device.destroyPipelineLayout(entry.second.pipeline);
        device.destroyDescriptorSetLayout(entry.second.set);
    }
}

Variant *Kernels::best(std::string_view kernel, const Variants &without) const {
    const auto family = families_.find(kernel);
    if (family == families_.end()) {
        return nullptr;
    }
    const Family &all = family->second;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Variant *v) {
        return v->state == KPX_VARIANT_USABLE && std::find(without.begin(), without.end(), v) == without.end();
    });
    return found == all.end() ? nullptr : *found;
}

PipelineKey Kernels::key(std::string_view kernel, const SpecConstants &spec, uint32_t bindings,
                         const Variants &without) const {
    const auto family = families_.find(kernel);
    if (family == families_.end()) {
        fail(KPX_UNSUPPORTED, "this build has no kernel {}", std::string(kernel));
    }
    Variant *chosen = best(kernel, without);
    if (chosen == nullptr) {
        throw KernelRefused({family->second.begin(), family->second.end()},
                            formatted("no variant of kernel {} is usable on this device", std::string(kernel)));
    }
    return {chosen, bindings, spec};
}

Pipeline Kernels::pipeline(std::string_view kernel, const SpecConstants &spec, uint32_t bindings,
                           const Variants &without, Making making) {
    return noted(key(kernel, spec, bindings, without), making);
}

Pipeline Kernels::irreplaceable(std::string_view kernel, uint32_t bindings) {
    return built(key(kernel, {}, bindings, {}), Making::now);
}

Pipeline Kernels::noted(const PipelineKey &key, Making making) {
    return not_refused(key, making, [&](const std::string &reason) { note_refusal(key, reason); });
}

Pipeline Kernels::build(const PipelineKey &key, bool overlaps) {
    return overlaps ? not_refused(key, Making::now, [](const std::string &) {}) : noted(key, Making::now);
}

template <typename Note> Pipeline Kernels::not_refused(const PipelineKey &key, Making making, Note note) {
    try {
        return built(key, making);
    } catch (const Missing &) {
        throw;
    } catch (...) {
        const Error error = current_error();
        if (error.code == KPX_OUT_OF_MEMORY || error.code == KPX_DEVICE_LOST) {
            throw; // no refusal
        }
        note(error.what());
        throw KernelRefused({key.variant}, error.what());
    }
}

void Kernels::note_refusal(const PipelineKey &key, const std::string &reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!refused_.insert(key).second) {
        return;
    }
    if (key.variant->reason.empty()) {
        key.variant->reason = reason;
        refusals_++;
    } else if (key.variant->reason == reason) {
        key.variant->state = KPX_VARIANT_REFUSED;
    }
}

// A driver need not refuse workgroups that are larger than its limits.
void Kernels::check_threads(uint32_t threads) const {
    const vk::PhysicalDeviceLimits &limits = device_.limits();
    const uint32_t most = std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]);
    if (threads > most) {
        fail(KPX_UNSUPPORTED, "workgroups of {} threads on a device that allows {}", threads, most);
    }
}

Pipeline Kernels::built(const PipelineKey &key, Making making) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (const auto it = pipelines_.find(key); it != pipelines_.end()) {
            return it->second;
        }
        if (refused_.count(key) != 0) {
            fail(KPX_UNSUPPORTED, "{}", key.variant->reason);
        }
    }
    if (making == Making::without_mutex) {
        throw Missing([this, key] { build_ahead(key); });
    }
    check_threads(key.spec.values[0]);
    Pipeline made{{}, layout(key.bindings, kPushBytes), key.variant};
    if (making == Making::later) {
        return made;
    }
    // Built without the registry's mutex: compiling can take long, and others should not have to wait.
    const vk::UniqueShaderModule module = load_specialized(*key.variant->code, key.spec);
    made.handle = build(*module, key.spec, made.layout, subgroups_of(key));
    std::lock_guard<std::mutex> lock(mutex_);
    try {
        auto entry = pipelines_.emplace(key, made);
        if (!entry.second) { // another thread was faster
            device_.handle().destroyPipeline(made.handle);
        }
        return entry.first->second;
    } catch (const std::bad_alloc &) {
        device_.handle().destroyPipeline(made.handle);
        throw;
    }
}

// A refusal is noted, so whoever asks for the pipeline next learns of it.
void Kernels::build_ahead(const PipelineKey &key) {
    try {
        noted(key, Making::now);
    } catch (const KernelRefused &) {
    }
}

// Kernels that use subgroups get full ones, of the size that their lowering was told.
SubgroupRequest Kernels::subgroups_of(const PipelineKey &key) const {
    const std::string_view features = key.variant->code->features;
    const bool by_subgroups = features.find("subgroup") != features.npos || features.find("coopmat") != features.npos;
    const SubgroupSizes &sizes = device_.subgroup_sizes();
    const uint32_t size = device_.traits().subgroup_size, threads = key.spec.values[0];
    if (!by_subgroups || size < sizes.min || size > sizes.max || threads > size * sizes.per_workgroup) {
        return {};
    }
    return {size, sizes.full && threads % size == 0};
}

Layout Kernels::layout(uint32_t bindings, uint32_t push_bytes) {
    push_bytes = std::max(push_bytes, kPushBytes);
    if (const uint32_t most = device_.limits().maxPerStageDescriptorStorageBuffers; bindings > most) {
        fail(KPX_UNSUPPORTED, "{} bindings; this device has at most {}", bindings, most);
    }
    std::lock_guard<std::mutex> lock(mutex_);
    Layout &found = layouts_[{bindings, push_bytes}];
    if (found.pipeline) {
        return found;
    }
    std::vector<vk::DescriptorSetLayoutBinding> slots;
    for (uint32_t i = 0; i < bindings; i++) {
        slots.emplace_back(i, vk::DescriptorType::eStorageBuffer, 1, vk::ShaderStageFlagBits::eCompute);
    }
    Layout made;
    made.bindings = bindings;
    made.set = device_.handle().createDescriptorSetLayout({{}, slots});
    const vk::PushConstantRange push(vk::ShaderStageFlagBits::eCompute, 0, push_bytes);
    try {
        made.pipeline = device_.handle().createPipelineLayout({{}, made.set, push});
    } catch (...) {
        device_.handle().destroyDescriptorSetLayout(made.set);
        throw;
    }
    found = made;
    return made;
}

vk::ShaderModule Kernels::load(const uint32_t *spirv, size_t bytes) {
    return device_.handle().createShaderModule({{}, bytes, spirv});
}

vk::UniqueShaderModule Kernels::load_specialized(const EmbeddedKernel &kernel, const SpecConstants &spec) {
    std::optional<std::vector<uint32_t>> code;
    if (specialize_) {
        code = specialized(kernel.spirv, size_t(kernel.end - kernel.spirv), spec.values.data(), spec.count);
    }
    const auto module = code ? load(code->data(), code->size() * sizeof(uint32_t)) : load(kernel.spirv, kernel.bytes());
    return vk::UniqueShaderModule(module, device_.handle());
}

Numbered<vk::Pipeline> Kernels::build(vk::ShaderModule module, const SpecConstants &spec, const Layout &layout,
                                      SubgroupRequest subgroups) {
    std::array<vk::SpecializationMapEntry, SpecConstants::kMost> entries;
    for (uint32_t i = 0; i < spec.count; i++) {
        entries[i] = vk::SpecializationMapEntry(i, i * 4, 4);
    }
    const vk::SpecializationInfo values(spec.count, entries.data(), spec.count * 4, spec.values.data());
    vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, module, "main", &values);
    const vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo required(subgroups.size);
    if (subgroups.size != 0) {
        stage.pNext = &required;
    }
    if (subgroups.full) {
        stage.flags |= vk::PipelineShaderStageCreateFlagBits::eRequireFullSubgroups;
    }
    const vk::ComputePipelineCreateInfo info({}, stage, layout.pipeline);
    vk::Pipeline pipeline;
    device_.check(device_.handle().createComputePipelines(cache_.handle(), 1, &info, nullptr, &pipeline),
                  "vkCreateComputePipelines");
    cache_.count();
    return Numbered<vk::Pipeline>(pipeline);
}

std::vector<kpx_variant> Kernels::list() {
    std::vector<kpx_variant> out;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Variant &variant : variants_) {
        out.push_back(describe(*variant.code));
        const bool refused = variant.state == KPX_VARIANT_USABLE && !variant.reason.empty();
        out.back().state = refused ? uint32_t(KPX_VARIANT_REFUSED) : variant.state.load();
        out.back().calls = variant.calls;
        copy_text(out.back().reason, variant.reason);
    }
    return out;
}

void Kernels::save_cache() {
    if (!device_.lost()) {
        cache_.save();
    }
}

} // namespace kpx
