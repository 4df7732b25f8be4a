#include "stream/op_times.hpp"

#include <algorithm>
#include <cstring>

#include "graph/graph.hpp"
#include "ops/op_table.hpp"
#include "runtime/device.hpp"
#include "stream/submissions.hpp"

namespace kpx {

namespace {

// The op of a dispatch, or its kernel if it belongs to no op.
std::string_view name_of(const Node &node) {
    return node.op == OpNode::kOpaque ? node.kernel : op_row(node.op).name;
}

template <size_t N> void copy_name(char (&out)[N], std::string_view name) {
    memset(out, 0, N);
    memcpy(out, name.data(), std::min(N - 1, name.size()));
}

} // namespace

kpx_span to_host(const DeviceClock &clock, const Recording::Span &span) {
    return {clock.to_host(span.start), clock.to_host(span.end)};
}

void OpTimes::set(const Queue &queue, kpx_timing timing) {
    if (timing != KPX_TIME_NOTHING) {
        Timestamps::require(queue);
    }
    timing_ = timing;
}

void OpTimes::add(const Submission &work) {
    const std::vector<Recording::Span> spans = work.recording->spans();
    const std::vector<Node> &nodes = work.program.nodes();
    device_->clock().observe(work.submitted_ns, work.recording->whole().start);
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < nodes.size(); i++) {
        const Node &node = nodes[i];
        const std::string_view name = name_of(node);
        auto it = sums_.find(name);
        if (it == sums_.end()) {
            it = sums_.emplace(name, Sum{}).first;
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

std::vector<kpx_op_time> OpTimes::sums() {
    std::vector<kpx_op_time> out;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto &[name, sum] : sums_) {
        kpx_op_time one;
        copy_name(one.op, name);
        one.calls = sum.calls;
        one.dispatches = sum.dispatches;
        one.device_ns = sum.device_ns;
        out.push_back(one);
    }
    return out;
}

uint64_t OpTimes::take_spans(kpx_op_span *out, uint64_t n) {
    std::lock_guard<std::mutex> lock(mutex_);
    const uint64_t taken = std::min<uint64_t>(n, spans_.size());
    for (uint64_t i = 0; i < taken; i++, spans_.pop_front()) {
        out[i] = spans_.front();
        out[i].span = to_host(device_->clock(), {out[i].span.start_ns, out[i].span.end_ns});
    }
    return taken;
}

} // namespace kpx
