#include "stream/order.hpp"

#include "abi/guard.hpp"
#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

// It is not enough that the host knows the point to be done: its writes must be visible to the device. For a closed
// stream, which has waited for all its work, they are.
bool follow(Stream &stream, const std::shared_ptr<Point> &point) {
    if (!point || point->refused || point->timeline == stream.timeline() || point->timeline->closed()) {
        return true;
    }
    if (point->pending) {
        if (const std::shared_ptr<Stream> other = point->stream.lock()) {
            other->submit_for(&stream);
        }
        if (point->refused) {
            return false;
        }
        if (point->pending) {
            fail(KPX_INTERNAL, "a window stays pending");
        }
    }
    if (!stream.waits().has(point->timeline, point->value)) {
        stream.submit_before();
        stream.waits().add_once(point->timeline, point->value);
    }
    return true;
}

void depend(Stream &stream, const Stream &other, uint64_t value) {
    if (other.device() != stream.device()) {
        fail(KPX_INVALID, "a stream can only wait for a stream of its own device");
    }
    if (value > other.timeline()->submitted()) {
        fail(KPX_INVALID, "a stream cannot wait for value {}, which was not submitted", value);
    }
    if (&other == &stream || value == 0) {
        return; // a stream runs in order
    }
    Lock lock(stream.device()->mutex());
    stream.report_refused();
    stream.submit_before();
    stream.waits().add(other.timeline(), value);
}

std::shared_ptr<Gate> hold(Stream &stream) {
    stream.device()->check_alive();
    Lock lock(stream.device()->mutex());
    stream.report_refused();
    stream.submit_before();
    auto gate = std::make_shared<Gate>(stream.device());
    stream.waits().add(gate);
    return gate;
}

} // namespace kpx
