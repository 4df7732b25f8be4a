#include "stream/gate.hpp"

#include <vector>

#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

void Gate::open() {
    const std::vector<std::shared_ptr<Stream>> streams =
        device_->streams(); // outlives the lock: the last owner may be here
    std::lock_guard<std::mutex> lock(device_->mutex());
    open_ = true;
    // What one stream submits may be what another one's work waits for.
    for (bool progress = true; progress;) {
        progress = false;
        for (const std::shared_ptr<Stream> &stream : streams) {
            progress = stream->launch_held() || progress;
        }
    }
}

} // namespace kpx
