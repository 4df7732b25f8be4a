#include "record/recording.hpp"

#include <algorithm>

#include <kompute/operations/OpBase.hpp>

#include "abi/error.hpp"
#include "abi/text.hpp"
#include "runtime/creation_check.hpp"
#include "runtime/device.hpp"
#include "runtime/vulkan_loader.hpp"

namespace kpx {

// Kompute's way to record: it passes the command buffer to this operation.
class RecordOp : public kp::OpBase {
  public:
    RecordOp(Recording &recording, const Program &program) : recording_(&recording), program_(&program) {}
    void record(const vk::CommandBuffer &commands) override {
        recording_->commands_ = commands;
        recording_->record(commands, *program_);
    }
    void preEval(const vk::CommandBuffer &) override {} // never called: we submit ourselves
    void postEval(const vk::CommandBuffer &) override {}

  private:
    // Valid during record(): the sequence keeps this object, but never calls it again.
    Recording *recording_;
    const Program *program_;
};

namespace {

using Stage = vk::PipelineStageFlagBits;
using Access = vk::AccessFlagBits;

void compute_barrier(vk::CommandBuffer commands) {
    const vk::MemoryBarrier barrier(Access::eShaderWrite, Access::eShaderRead | Access::eShaderWrite);
    commands.pipelineBarrier(Stage::eComputeShader, Stage::eComputeShader, {}, barrier, {}, {});
}

void host_barrier(vk::CommandBuffer commands) {
    const vk::MemoryBarrier barrier(Access::eShaderWrite, Access::eHostRead);
    commands.pipelineBarrier(Stage::eComputeShader, Stage::eHost, {}, barrier, {}, {});
}

// Replays begin with it: results that dispatches wait for are not there yet.
void fill_missing(vk::CommandBuffer commands, const Program &program) {
    const vk::MemoryBarrier before(Access::eShaderRead | Access::eShaderWrite, Access::eTransferWrite);
    commands.pipelineBarrier(Stage::eComputeShader, Stage::eTransfer, {}, before, {}, {});
    for (const Use &memory : program.missing()) {
        commands.fillBuffer(memory.buffer, memory.offset, memory.bytes, OVERLAP_MISSING);
    }
    const vk::MemoryBarrier after(Access::eTransferWrite, Access::eShaderRead | Access::eShaderWrite);
    commands.pipelineBarrier(Stage::eTransfer, Stage::eComputeShader, {}, after, {}, {});
}

} // namespace

Recording::Recording(std::shared_ptr<Device> device, const Queue &queue, const Program &program, Runs runs, Timed timed)
    : device_(std::move(device)), timed_(timed), descriptors_(*device_) {
    if (timed != Timed::no) {
        const size_t inside = timed == Timed::each ? 2 * program.nodes().size() : 0;
        stamps_ = std::make_unique<Timestamps>(device_, queue, uint32_t(2 + inside));
    }
    sequence_ = device_->sequences().take(queue);
    const RecordedForMany many(runs == Runs::many);
    sequence_.sequence->record(std::make_shared<RecordOp>(*this, program));
    sequence_.sequence->end();
}

Recording::~Recording() {
    device_->sequences().give_back(std::move(sequence_));
}

// The first barrier orders this work after the queue's earlier submissions: those
// of this stream and earlier runs of this recording.
void Recording::record(const vk::CommandBuffer &commands, const Program &program) {
    if (stamps_) {
        stamps_->reset(commands);
    }
    compute_barrier(commands);
    counts_.barriers = 1;
    stamp(commands, timed_ != Timed::no);
    if (!program.missing().empty()) {
        fill_missing(commands, program);
        counts_.barriers += 2;
        counts_.commands += program.missing().size();
    }
    const std::vector<vk::DescriptorSet> sets = bind(program);
    // Dispatches that overlap cannot be timed one by one, and the validation layer expects barriers.
    const bool apart = timed_ == Timed::each || validation_wanted();
    for (size_t i = 0; i < sets.size(); i++) {
        const Node &node = program.nodes()[i];
        if (node.barrier || (apart && program.awaits(node))) {
            compute_barrier(commands);
            counts_.barriers++;
        }
        stamp(commands, timed_ == Timed::each);
        record_node(commands, program, node, sets[i]);
        stamp(commands, timed_ == Timed::each);
    }
    stamp(commands, timed_ != Timed::no);
    if (program.ends_at_host()) {
        host_barrier(commands);
        counts_.barriers++;
    }
    counts_.commands += counts_.barriers;
}

void Recording::stamp(vk::CommandBuffer commands, bool wanted) {
    if (wanted) {
        stamps_->write(commands);
        counts_.commands++;
    }
}

void Recording::record_node(vk::CommandBuffer commands, const Program &program, const Node &node,
                            vk::DescriptorSet set) {
    if (node.pipeline != bound_) {
        commands.bindPipeline(vk::PipelineBindPoint::eCompute, node.pipeline);
        bound_ = node.pipeline;
        counts_.commands++;
    }
    commands.bindDescriptorSets(vk::PipelineBindPoint::eCompute, node.layout.pipeline, 0, set, {});
    if (node.push_bytes > 0) {
        commands.pushConstants(node.layout.pipeline, vk::ShaderStageFlagBits::eCompute, 0, node.push_bytes,
                               program.push(node));
        counts_.commands++;
    }
    commands.dispatch(node.grid.x, node.grid.y, node.grid.z);
    counts_.dispatches++;
    counts_.commands += 2;
    count_node(node);
}

void Recording::count_node(const Node &node) {
    const auto same = [&](const Calls &calls) { return calls.variant == node.variant; };
    const auto found = std::find_if(calls_.begin(), calls_.end(), same);
    if (found != calls_.end()) {
        found->dispatches++;
    } else {
        calls_.push_back({node.variant, node.kernel, 1});
    }
}

std::string Recording::describe() const {
    std::string text = formatted("{} dispatches", counts_.dispatches);
    for (size_t i = 0; i < calls_.size(); i++) {
        text += formatted("{}{} {}", i == 0 ? ": " : ", ", calls_[i].dispatches, calls_[i].kernel);
    }
    return text;
}

void Recording::count_calls(uint64_t runs) const {
    for (const Calls &calls : calls_) {
        if (calls.variant != nullptr) {
            calls.variant->calls += runs * calls.dispatches;
        }
    }
}

Recording::Span Recording::whole() const {
    const std::vector<uint64_t> times = stamps_->read();
    return {times.front(), times.back()};
}

std::vector<Recording::Span> Recording::spans() const {
    const std::vector<uint64_t> times = stamps_->read();
    std::vector<Span> out;
    for (size_t i = 1; i + 2 < times.size(); i += 2) {
        out.push_back({times[i], times[i + 1]});
    }
    return out;
}

// The descriptor sets of all nodes, written by one driver call.
std::vector<vk::DescriptorSet> Recording::bind(const Program &program) {
    std::vector<DescriptorArena::Wanted> wanted;
    size_t uses = 0;
    for (const Node &node : program.nodes()) {
        wanted.push_back({node.layout.set, node.layout.bindings});
        uses += node.layout.bindings;
    }
    const std::vector<vk::DescriptorSet> sets = descriptors_.allocate(wanted);
    std::vector<vk::DescriptorBufferInfo> buffers;
    std::vector<vk::WriteDescriptorSet> writes;
    buffers.reserve(uses); // writes hold pointers into it
    writes.reserve(sets.size());
    for (size_t i = 0; i < sets.size(); i++) {
        const Node &node = program.nodes()[i];
        const size_t first = buffers.size();
        for (uint32_t k = 0; k < node.layout.bindings; k++) {
            const Use &use = program.uses(node)[k];
            buffers.emplace_back(use.buffer, use.offset, use.bytes);
        }
        // All bindings have the same type, so one write fills a set.
        writes.emplace_back(sets[i], 0, 0, node.layout.bindings, vk::DescriptorType::eStorageBuffer, nullptr,
                            buffers.data() + first);
        counts_.descriptor_writes += node.layout.bindings;
    }
    if (!writes.empty()) {
        device_->handle().updateDescriptorSets(writes, {});
    }
    return sets;
}

} // namespace kpx
