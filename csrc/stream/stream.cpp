#include "stream/stream.hpp"

#include <algorithm>

#include "record/capture.hpp"
#include "record/region.hpp"
#include "runtime/algorithm.hpp"
#include "runtime/device.hpp"

namespace kpx {

std::shared_ptr<Stream> Stream::create(std::shared_ptr<Device> device, kpx_stream_kind kind) {
    device->check_alive();
    std::shared_ptr<Stream> stream(new Stream(device, kind));
    device->add_stream(stream);
    return stream;
}

Stream::Stream(std::shared_ptr<Device> device, kpx_stream_kind kind)
    : device_(std::move(device)), queue_(device_->next_queue()), number_(device_->next_stream()), kind_(kind),
      timeline_(std::make_shared<Timeline>(device_)), times_(device_), submissions_(device_, queue_, timeline_, times_),
      window_(*device_, false), uploads_(*device_) {}

// The last owner may hold the device's mutex, which finish() takes; so a created stream is always finished before this.
Stream::~Stream() {
    if (!finished_) {
        finish();
    }
}

void Stream::finish() noexcept {
    try {
        Window dropped(*device_, false);
        std::unique_ptr<Capture> capture;
        {
            Lock lock(device_->mutex());
            finished_ = true;
            if (point_) {
                point_->pending = false;
                point_->refused =
                    std::make_unique<Error>(KPX_INVALID, "the stream was closed before the work was started");
                point_.reset();
            }
            std::swap(dropped, window_);
            std::swap(capture, capture_);
            waits_.clear();
            followed_.clear();
            uploads_.taken();
        }
        timeline_->wait(timeline_->submitted(), UINT64_MAX);
    } catch (const std::exception &) {
        device_->drain(queue_); // nothing may be freed while the device still uses it
    }
    timeline_->close();
    submissions_.drop();
}

// ---- Order between streams ----

const std::shared_ptr<Point> &Stream::point() {
    if (window_.empty()) {
        fail(KPX_INTERNAL, "an empty window has no point");
    }
    if (!point_) {
        point_ = std::make_shared<Point>();
        point_->timeline = timeline_;
        point_->value = timeline_->submitted() + 1;
        point_->stream = weak_from_this();
        point_->pending = true;
    }
    return point_;
}

std::shared_ptr<Point> Stream::last_point() {
    if (!window_.empty()) {
        return point();
    }
    auto made = std::make_shared<Point>();
    made->timeline = timeline_;
    made->value = timeline_->submitted();
    made->stream = weak_from_this();
    return made;
}

void Stream::wait_for(const std::shared_ptr<Timeline> &timeline, uint64_t value) {
    for (Wait &wait : waits_) {
        if (wait.timeline == timeline) {
            wait.value = std::max(wait.value, value);
            return;
        }
    }
    waits_.push_back({timeline, value, nullptr});
}

// It is not enough that the host knows the point to be done: its writes must be visible to the device. For a closed
// stream, which has waited for all its work, they are.
bool Stream::follow(const std::shared_ptr<Point> &point) {
    if (!point || point->refused || point->timeline == timeline_ || point->timeline->closed()) {
        return true;
    }
    if (point->pending) {
        if (const std::shared_ptr<Stream> other = point->stream.lock()) {
            other->submit_for(this);
        }
        if (point->refused) {
            return false;
        }
        if (point->pending) {
            fail(KPX_INTERNAL, "a window stays pending");
        }
    }
    if (followed_.size() >= most_followed_) {
        for (auto it = followed_.begin(); it != followed_.end();) {
            it = it->first->closed() ? followed_.erase(it) : std::next(it);
        }
        most_followed_ = std::max<size_t>(64, 2 * followed_.size());
    }
    if (followed_[point->timeline] >= point->value) {
        return true;
    }
    if (!window_.empty()) {
        submit_pending();
    }
    wait_for(point->timeline, point->value);
    followed_[point->timeline] = point->value;
    return true;
}

void Stream::depend(const Stream &other, uint64_t value) {
    if (other.device_ != device_) {
        fail(KPX_INVALID, "a stream can only wait for a stream of its own device");
    }
    if (value > other.timeline_->submitted()) {
        fail(KPX_INVALID, "a stream cannot wait for value {}, which was not submitted", value);
    }
    if (&other == this || value == 0) {
        return; // a stream runs in order
    }
    Lock lock(device_->mutex());
    report_refused();
    if (!window_.empty()) {
        submit_pending();
    }
    wait_for(other.timeline_, value);
}

std::shared_ptr<Gate> Stream::hold() {
    device_->check_alive();
    Lock lock(device_->mutex());
    report_refused();
    if (!window_.empty()) {
        submit_pending();
    }
    auto gate = std::make_shared<Gate>(device_);
    waits_.push_back({nullptr, 0, gate});
    return gate;
}

void Stream::wait(uint64_t value, uint64_t timeout_ns) {
    if (value > timeline_->submitted()) {
        fail(KPX_INVALID, "cannot wait for value {}, which was not submitted", value);
    }
    counters_.waits++;
    timeline_->wait(value, timeout_ns);
    collect();
}

// ---- Counters ----

std::vector<kpx_op_time> Stream::op_times() {
    collect();
    return times_.sums();
}

uint64_t Stream::take_spans(kpx_op_span *out, uint64_t n) {
    collect();
    return times_.take_spans(out, n);
}

kpx_stream_stats Stream::stats() const {
    const Counters &c = counters_;
    kpx_stream_stats out{};
    out.ops = c.ops;
    out.repeated_ops = c.repeated_ops;
    out.dispatches = c.dispatches;
    out.barriers = c.barriers;
    out.submits = c.submits;
    out.descriptor_writes = c.descriptor_writes;
    out.recorded_commands = c.commands;
    out.uploads = c.uploads;
    out.upload_bytes = c.upload_bytes;
    out.waits = c.waits;
    out.record_ns = c.record_ns;
    out.submit_ns = c.submit_ns;
    out.replays = c.replays;
    return out;
}

} // namespace kpx
