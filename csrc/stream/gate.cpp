#include "stream/gate.hpp"

#include <vector>

#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

void Gate::open() {
    const std::vector<std::shared_ptr<Stream>> streams =
        device_->streams(); // declared before the lock: this may be the last owner
    std::lock_guard<std::mutex> lock(device_->mutex());
    open_ = true;
    // Work that one stream submits may unblock another stream's.
    for (bool progress = true; progress;) {
        progress = false;
        for (const std::shared_ptr<Stream> &stream : streams) {
            progress = stream->launch_held() || progress;
        }
    }
}

} // namespace kpx
