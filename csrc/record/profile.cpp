// What the device's time goes into: of a region's dispatches, and of a stream's ops.
#include <algorithm>
#include <cstring>

#include "abi/error.hpp"
#include "ops/op_table.hpp"
#include "record/recording.hpp"
#include "record/region.hpp"
#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

// Submits what is pending, and then that recording of the region's: behind the
// region's last replay, if that was another stream's.
uint64_t Stream::run(const std::shared_ptr<Recording> &recording, const std::shared_ptr<Region> &owner) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (capture_) {
        fail(KPX_INVALID, "a region cannot be replayed inside a capture");
    }
    if (!window_.empty()) {
        submit_pending();
    }
    std::lock_guard<std::mutex> order(owner->order);
    wait_for_last(*owner);
    submit({timeline_->submitted() + 1, 0, {}, recording, owner, 0, KPX_TIME_NOTHING, {}, 0}, std::move(waits_));
    waits_.clear();
    note_last(*owner);
    return timeline_->submitted();
}

namespace {

kpx_span to_host(const DeviceClock &clock, const Recording::Span &span) {
    return {clock.to_host(span.start), clock.to_host(span.end)};
}

// The op of a dispatch, or its kernel where it is no op's.
std::string_view name_of(const Node &node) {
    return node.op == OpNode::kOpaque ? node.kernel : op_row(node.op).name;
}

template <size_t N> void copy_name(char (&out)[N], std::string_view name) {
    memset(out, 0, N);
    memcpy(out, name.data(), std::min(N - 1, name.size()));
}

} // namespace

kpx_span Stream::profile(const std::shared_ptr<Region> &region, kpx_span *spans, uint64_t n) {
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
    const uint64_t submitted = host_clock_ns();
    const uint64_t value = run(recording, region);
    counters_.replays++;
    counters_.dispatches += counts.dispatches;
    counters_.barriers += counts.barriers;
    wait(value, UINT64_MAX);
    const Recording::Span whole = recording->whole();
    DeviceClock &clock = device_->clock();
    clock.observe(submitted, whole.start);
    if (spans != nullptr) {
        const std::vector<Recording::Span> all = recording->spans();
        std::transform(all.begin(), all.end(), spans,
                       [&](const Recording::Span &span) { return to_host(clock, span); });
    }
    return to_host(clock, whole);
}

void Stream::time_ops(kpx_timing timing) {
    if (timing != KPX_TIME_NOTHING) {
        Timestamps::require(queue_);
    }
    timing_ = timing;
}

void Stream::add_times(const InFlight &work) {
    const std::vector<Recording::Span> spans = work.recording->spans();
    const std::vector<Node> &nodes = work.program.nodes();
    device_->clock().observe(work.submitted_ns, work.recording->whole().start);
    std::lock_guard<std::mutex> lock(times_mutex_);
    for (size_t i = 0; i < nodes.size(); i++) {
        const Node &node = nodes[i];
        const std::string_view name = name_of(node);
        auto it = op_times_.find(name);
        if (it == op_times_.end()) {
            it = op_times_.emplace(name, OpTime{}).first;
        }
        it->second.calls += i == 0 || nodes[i - 1].call != node.call;
        it->second.dispatches++;
        it->second.device_ns += spans[i].end - spans[i].start;
        if (work.timing == KPX_TIME_SPANS) {
            kpx_op_span one;
            copy_name(one.op, name);
            copy_name(one.kernel, node.kernel);
            one.span = {spans[i].start, spans[i].end};
            spans_.push_back(one);
        }
    }
}

std::vector<kpx_op_time> Stream::op_times() {
    collect();
    std::vector<kpx_op_time> out;
    std::lock_guard<std::mutex> lock(times_mutex_);
    for (const auto &[name, time] : op_times_) {
        kpx_op_time one;
        copy_name(one.op, name);
        one.calls = time.calls;
        one.dispatches = time.dispatches;
        one.device_ns = time.device_ns;
        out.push_back(one);
    }
    return out;
}

uint64_t Stream::take_spans(kpx_op_span *out, uint64_t n) {
    collect();
    std::lock_guard<std::mutex> lock(times_mutex_);
    const uint64_t taken = std::min<uint64_t>(n, spans_.size());
    for (uint64_t i = 0; i < taken; i++, spans_.pop_front()) {
        out[i] = spans_.front();
        out[i].span = to_host(device_->clock(), {out[i].span.start_ns, out[i].span.end_ns});
    }
    return taken;
}

} // namespace kpx
