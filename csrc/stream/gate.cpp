#include "stream/gate.hpp"

#include <vector>

#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

namespace {

// Work that one stream submits may unblock another stream's.
void launch_all(const std::vector<std::shared_ptr<Stream>> &streams) {
    for (bool progress = true; progress;) {
        progress = false;
        for (const std::shared_ptr<Stream> &stream : streams) {
            progress = stream->launch_held() || progress;
        }
    }
}

} // namespace

// The streams are listed with the mutex held: until the gate is open, work of a new stream may still be held back.
void Gate::open() noexcept {
    std::vector<std::shared_ptr<Stream>> streams; // declared before the lock: this may be the last owner
    std::lock_guard<std::mutex> lock(device_->mutex());
    open_ = true;
    try {
        streams = device_->streams();
        launch_all(streams);
    } catch (...) { // host memory: some work would never start, and nobody would learn of it
        device_->mark_lost();
    }
}

} // namespace kpx
