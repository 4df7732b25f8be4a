#include "runtime/kernels.hpp"

#include <algorithm>
#include <cstring>

#include "abi/error.hpp"
#include "runtime/device.hpp"

namespace kpx {

constexpr uint32_t kPushBytes = 128; // what every device offers

bool Kernels::Key::operator==(const Key &other) const {
    return kernel == other.kernel && bindings == other.bindings && spec.count == other.spec.count &&
           memcmp(spec.values.data(), other.spec.values.data(), spec.count * sizeof(uint32_t)) == 0;
}

size_t Kernels::KeyHash::operator()(const Key &key) const {
    uint64_t hash = reinterpret_cast<uintptr_t>(key.kernel) ^ key.bindings;
    for (uint32_t i = 0; i < key.spec.count; i++) {
        hash = (hash ^ key.spec.values[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return size_t(hash);
}

Kernels::Kernels(Device &device) : device_(device), cache_(device.handle(), device.physical()) {
    for (uint32_t i = 0; i < embedded_kernel_count; i++) {
        const EmbeddedKernel &kernel = embedded_kernels[i];
        if (device.features().has_all(kernel.features)) {
            chosen_.emplace(kernel.kernel, &kernel); // the first one stays
        }
    }
}

Kernels::~Kernels() {
    const vk::Device device = device_.handle();
    for (auto &entry : pipelines_) {
        device.destroyPipeline(entry.second.handle);
    }
    for (auto &entry : modules_) {
        device.destroyShaderModule(entry.second);
    }
    for (auto &entry : layouts_) {
        device.destroyPipelineLayout(entry.second.pipeline);
        device.destroyDescriptorSetLayout(entry.second.set);
    }
}

const EmbeddedKernel *Kernels::find(std::string_view kernel) const {
    auto it = chosen_.find(kernel);
    return it == chosen_.end() ? nullptr : it->second;
}

const Pipeline &Kernels::pipeline(const EmbeddedKernel &kernel, const SpecConstants &spec, uint32_t bindings) {
    const Key key{&kernel, bindings, spec};
    {
        std::lock_guard<std::mutex> lock(mutex_);
        auto it = pipelines_.find(key);
        if (it != pipelines_.end()) {
            return it->second;
        }
    }
    // Built outside the lock: compiling can take long, and others need not wait.
    Pipeline made{{}, layout(bindings, kPushBytes)};
    made.handle = build(module(kernel), spec, made.layout);
    std::lock_guard<std::mutex> lock(mutex_);
    auto entry = pipelines_.emplace(key, made);
    if (!entry.second) { // another thread was faster
        device_.handle().destroyPipeline(made.handle);
    }
    return entry.first->second;
}

Layout Kernels::layout(uint32_t bindings, uint32_t push_bytes) {
    push_bytes = std::max(push_bytes, kPushBytes);
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

vk::ShaderModule Kernels::module(const EmbeddedKernel &kernel) {
    std::lock_guard<std::mutex> lock(mutex_);
    vk::ShaderModule &found = modules_[&kernel];
    if (!found) {
        found = load(kernel.spirv, kernel.bytes);
    }
    return found;
}

Numbered<vk::Pipeline> Kernels::build(vk::ShaderModule module, const SpecConstants &spec, const Layout &layout) {
    std::array<vk::SpecializationMapEntry, SpecConstants::kMost> entries;
    for (uint32_t i = 0; i < spec.count; i++) {
        entries[i] = vk::SpecializationMapEntry(i, i * 4, 4);
    }
    const vk::SpecializationInfo values(spec.count, entries.data(), spec.count * 4, spec.values.data());
    const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, module, "main", &values);
    const vk::ComputePipelineCreateInfo info({}, stage, layout.pipeline);
    vk::Pipeline pipeline;
    device_.check(device_.handle().createComputePipelines(cache_.handle(), 1, &info, nullptr, &pipeline),
                  "vkCreateComputePipelines");
    built_++;
    return Numbered<vk::Pipeline>(pipeline);
}

void Kernels::save_cache() {
    const uint64_t now = built_;
    if (now != saved_ && !device_.lost()) {
        saved_ = now;
        cache_.save();
    }
}

} // namespace kpx
