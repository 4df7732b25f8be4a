// What the device's time goes into: of a region's dispatches, and of a stream's ops.
#include <algorithm>
#include <cstring>

#include "device.hpp"
#include "error.hpp"
#include "op_table.hpp"
#include "recording.hpp"
#include "region.hpp"
#include "stream.hpp"

namespace kpx {

// Submits what is pending, and then that recording of the region's.
uint64_t Stream::run(const std::shared_ptr<Recording> &recording, const std::shared_ptr<Region> &owner) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (capture_) {
        fail(KPX_INVALID, "a region cannot be replayed inside a capture");
    }
    if (!window_.empty()) {
        submit_pending();
    }
    submit({timeline_->submitted() + 1, 0, {}, recording, owner, 0, false, {}}, std::move(waits_));
    waits_.clear();
    return timeline_->submitted();
}

uint64_t Stream::profile(const std::shared_ptr<Region> &region, kpx_span *spans, uint64_t n) {
    device_->check_alive();
    if (region->device() != device_) {
        fail(KPX_INVALID, "the region was captured on another device");
    }
    const Recording::Counts counts = region->recording().counts();
    if (spans != nullptr && n != counts.dispatches) {
        fail(KPX_INVALID, "room for %llu spans; the region has %llu dispatches", (unsigned long long)n,
             (unsigned long long)counts.dispatches);
    }
    const std::lock_guard<std::mutex> lock(region->profiling);
    const auto timed = spans != nullptr ? Recording::Timed::each : Recording::Timed::whole;
    const std::shared_ptr<Recording> &recording = region->timed(queue_, timed);
    const uint64_t value = run(recording, region);
    counters_.replays++;
    counters_.dispatches += counts.dispatches;
    counters_.barriers += counts.barriers;
    wait(value, UINT64_MAX);
    if (spans != nullptr) {
        const std::vector<Recording::Span> all = recording->spans();
        std::transform(all.begin(), all.end(), spans, [](const Recording::Span &span) {
            return kpx_span{span.start, span.end};
        });
    }
    return recording->whole_ns();
}

void Stream::time_ops(bool on) {
    if (on) {
        Timestamps::require(queue_);
    }
    timing_ = on;
}

void Stream::add_times(const Recording &recording, const Program &program) {
    const std::vector<Recording::Span> spans = recording.spans();
    const std::vector<Node> &nodes = program.nodes();
    std::lock_guard<std::mutex> lock(times_mutex_);
    for (size_t i = 0; i < nodes.size(); i++) {
        const Node &node = nodes[i];
        const std::string_view name = node.op == OpNode::kOpaque ? node.kernel : op_row(node.op).name;
        auto it = op_times_.find(name);
        if (it == op_times_.end()) {
            it = op_times_.emplace(name, OpTime{}).first;
        }
        it->second.calls += i == 0 || nodes[i - 1].call != node.call;
        it->second.dispatches++;
        it->second.device_ns += spans[i].end - spans[i].start;
    }
}

std::vector<kpx_op_time> Stream::op_times() {
    collect();
    std::vector<kpx_op_time> out;
    std::lock_guard<std::mutex> lock(times_mutex_);
    for (const auto &[name, time] : op_times_) {
        kpx_op_time one{};
        strncpy(one.op, name.c_str(), sizeof one.op - 1);
        one.calls = time.calls;
        one.dispatches = time.dispatches;
        one.device_ns = time.device_ns;
        out.push_back(one);
    }
    return out;
}

} // namespace kpx
