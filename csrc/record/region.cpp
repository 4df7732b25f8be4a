#include "record/region.hpp"

#include <algorithm>

#include "fusion/passes.hpp"
#include "graph/overlap.hpp"
#include "record/pipelines.hpp"
#include "runtime/device.hpp"
#include "runtime/stopwatch.hpp"
#include "stream/op_times.hpp"

namespace kpx {

Region::Region(std::shared_ptr<Device> device, const Queue &queue, Window window, const PassSet &passes, Arenas &arenas)
    : device_(std::move(device)) {
    Stopwatch watch(record_ns_);
    appended_ = window.graph().size();
    for (bool built = false; !built;) {
        program_ = window.finish(passes);
        if (device_->overlaps()) {
            overlap_dispatches(*device_, program_, window.graph());
        }
        built = build_pipelines(*device_, program_);
        if (!built) {
            window.lower_again();
        }
    }
    memory_.decide(program_, window.graph(), device_->memory().largest(), passes.plans_memory());
    list_ops(window.graph());
    {
        const Window dropped = std::move(window); // frees the memory of planned tensors
    }
    memory_.allocate(*device_, program_, arenas);
    program_.plan();
    recording_ = std::make_unique<Recording>(device_, queue, program_, Recording::Runs::many);
}

Region::~Region() {
    for (const RegionUse &use : uses_) {
        use.tensor->regions--;
    }
}

void Region::use(std::vector<RegionUse> uses) {
    for (const RegionUse &use : uses) {
        unmarked_.push_back(uint32_t(index_.size()));
        index_.emplace(use.tensor.get(), uint32_t(index_.size()));
    }
    marked_.assign(uses.size(), false);
    uses_ = std::move(uses); // nothing fails from here on: the destructor counts down what is counted here
    for (const RegionUse &use : uses_) {
        use.tensor->regions++;
    }
}

void Region::unmark(uint32_t use) {
    if (marked_[use]) {
        marked_[use] = false;
        unmarked_.push_back(use);
    }
}

void Region::set_last(std::shared_ptr<Point> point) {
    last = std::move(point);
    for (uint32_t i = 0; i < uses_.size(); i++) {
        unmark(i);
    }
}

const std::shared_ptr<Recording> &Region::timed(const Queue &queue, Recording::Timed timed) {
    std::shared_ptr<Recording> &wanted = timed == Recording::Timed::each ? each_ : whole_;
    if (!wanted) {
        wanted = std::make_shared<Recording>(device_, queue, program_, Recording::Runs::many, timed);
    }
    return wanted;
}

void Region::profiled(std::shared_ptr<Recording> recording, uint64_t submitted_ns, std::shared_ptr<Timeline> timeline,
                      uint64_t value) {
    profiled_ = {std::move(recording), submitted_ns, std::move(timeline), value};
}

kpx_span Region::times(kpx_span *spans, uint64_t n) {
    const std::lock_guard<std::mutex> lock(profiling);
    device_->check_alive();
    if (!profiled_.recording || profiled_.timeline->completed() < profiled_.value) {
        fail(KPX_INVALID, "the region was not profiled yet");
    }
    if (spans != nullptr && (n != recording_->counts().dispatches || !profiled_.recording->times_each())) {
        fail(KPX_INVALID, "room for {} spans; {} dispatches were timed", n,
             profiled_.recording->times_each() ? recording_->counts().dispatches : 0);
    }
    const Recording::Span whole = profiled_.recording->whole();
    DeviceClock &clock = device_->clock();
    clock.observe(profiled_.submitted_ns, whole.start);
    if (spans != nullptr) {
        const std::vector<Recording::Span> all = profiled_.recording->spans();
        std::transform(all.begin(), all.end(), spans,
                       [&](const Recording::Span &span) { return to_host(clock, span); });
    }
    return to_host(clock, whole);
}

void Region::list_ops(const Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const OpNode &node = graph.node(id);
        ops_.push_back({node.op, node.pass, node.fused, operands_of(node), node.last - node.first});
    }
}

std::vector<Region::Operand> Region::operands_of(const OpNode &node) const {
    std::vector<Operand> out;
    for (uint32_t i = 0; i < node.arrays.size(); i++) {
        const Array &array = node.arrays[i];
        if (array) {
            const int64_t start = int64_t(array.base / array.element_size()) + array.offset;
            out.push_back({i, memory_.index_of(array.buffer.get()), node.access[i], array.dtype, array.rank,
                           array.shape, array.strides, start});
        }
    }
    return out;
}

kpx_region_stats Region::stats() const {
    const Recording::Counts &counts = recording_->counts();
    kpx_region_stats out{};
    out.ops = appended_;
    out.fused_ops = ops_.size();
    out.dispatches = counts.dispatches;
    out.barriers = counts.barriers;
    out.overlaps = program_.overlaps();
    out.descriptor_writes = counts.descriptor_writes;
    out.recorded_commands = counts.commands;
    out.transient_bytes_unplanned = memory_.unplanned();
    out.transient_bytes = memory_.planned();
    out.record_ns = record_ns_;
    return out;
}

} // namespace kpx
