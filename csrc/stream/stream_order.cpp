// The part of Stream that keeps the order between streams.
#include "abi/guard.hpp"
#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

const std::shared_ptr<Point> &Stream::point() {
    if (pending_.empty()) {
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

std::shared_ptr<Point> Stream::submitted_point() {
    auto made = std::make_shared<Point>();
    made->timeline = timeline_;
    made->value = timeline_->submitted();
    made->stream = weak_from_this();
    return made;
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
    if (!waits_.has(point->timeline, point->value)) {
        submit_before();
        waits_.add_once(point->timeline, point->value);
    }
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
    submit_before();
    waits_.add(other.timeline_, value);
}

std::shared_ptr<Gate> Stream::hold() {
    device_->check_alive();
    Lock lock(device_->mutex());
    report_refused();
    submit_before();
    auto gate = std::make_shared<Gate>(device_);
    waits_.add(gate);
    return gate;
}

} // namespace kpx
