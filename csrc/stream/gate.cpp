#include "stream/gate.hpp"

#include <algorithm>

#include "abi/error.hpp"
#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

void Gate::open() {
    const std::vector<std::shared_ptr<Stream>> streams =
        device_->streams(); // outlives the lock: the last owner may be here
    std::lock_guard<std::mutex> lock(device_->held().mutex);
    open_ = true;
    // What one stream submits may be what another one's work waits for.
    for (bool progress = true; progress;) {
        progress = false;
        for (const std::shared_ptr<Stream> &stream : streams) {
            progress = stream->launch_held() || progress;
        }
    }
}

std::shared_ptr<Gate> Stream::hold() {
    device_->check_alive();
    std::lock_guard<std::mutex> lock(mutex_);
    if (!window_.empty()) {
        submit_pending();
    }
    auto gate = std::make_shared<Gate>(device_);
    waits_.push_back({nullptr, 0, gate});
    return gate;
}

bool Stream::ready(const InFlight &work) {
    return std::all_of(work.waits.begin(), work.waits.end(), [](const Wait &wait) {
        return wait.gate ? wait.gate->is_open() : wait.timeline->queued() >= wait.value;
    });
}

// Hands work, which is listed in in_flight_, to the driver; or keeps it, if what
// it waits for is kept.
vk::Result Stream::launch_or_hold(const InFlight &work) {
    Held &held = device_->held();
    const bool gated = std::any_of(work.waits.begin(), work.waits.end(), [](const Wait &w) { return bool(w.gate); });
    if (!gated && held.submissions == 0) {
        return launch(work, commands_);
    }
    std::lock_guard<std::mutex> lock(held.mutex);
    if (held_.empty() && ready(work)) {
        return launch(work, commands_);
    }
    held_.push_back(&work);
    held.submissions++;
    return vk::Result::eSuccess;
}

bool Stream::launch_held() {
    bool progress = false;
    std::vector<vk::CommandBuffer> commands;
    while (!held_.empty() && (device_->lost() || ready(*held_.front()))) {
        // Nobody is there to be told of an error; all who wait hear of a lost device.
        if (!device_->lost() && launch(*held_.front(), commands) != vk::Result::eSuccess) {
            device_->mark_lost();
        }
        held_.pop_front();
        device_->held().submissions--;
        progress = true;
    }
    return progress;
}

void Stream::drop_held() {
    std::lock_guard<std::mutex> lock(device_->held().mutex);
    device_->held().submissions -= held_.size();
    held_.clear();
}

} // namespace kpx
