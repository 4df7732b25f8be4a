// Captures and replays of a stream.
#include "abi/error.hpp"
#include "record/recording.hpp"
#include "record/region.hpp"
#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

void Stream::begin_capture() {
    device_->check_alive();
    std::lock_guard<std::mutex> lock(mutex_);
    if (capture_) {
        fail(KPX_INVALID, "the stream is capturing already");
    }
    capture_ = std::make_unique<Window>(*device_, true);
}

std::shared_ptr<Region> Stream::end_capture() {
    std::unique_ptr<Window> captured;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!capture_) {
            fail(KPX_INVALID, "the stream is not capturing");
        }
        std::swap(captured, capture_);
        submit_pending(); // uploads that the region needs
    }
    return std::make_shared<Region>(device_, queue_, std::move(*captured), passes_);
}

void Stream::abort_capture() noexcept {
    std::unique_ptr<Window> dropped;
    std::lock_guard<std::mutex> lock(mutex_);
    std::swap(dropped, capture_);
}

// The caller holds the region's order, here and below.
void Stream::wait_for_last(const Region &region) {
    if (region.last_timeline && region.last_timeline != timeline_) {
        wait_for(region.last_timeline, region.last_value);
    }
}

void Stream::note_last(Region &region) {
    region.last_timeline = timeline_;
    region.last_value = timeline_->submitted();
}

// Behind the region's last replay, if that was another stream's.
uint64_t Stream::submit_after_last(const std::shared_ptr<Region> &region, uint32_t times) {
    std::lock_guard<std::mutex> lock(region->order);
    wait_for_last(*region);
    const uint64_t value = submit_pending(region, times);
    note_last(*region);
    return value;
}

uint64_t Stream::replay(std::shared_ptr<Region> region, uint32_t times) {
    if (region->device() != device_) {
        fail(KPX_INVALID, "the region was captured on another device");
    }
    if (times == 0 || times > KPX_MOST_REPLAYS) {
        fail(KPX_INVALID, "a region is replayed 1 to %d times at once, not %u", KPX_MOST_REPLAYS, times);
    }
    const Recording::Counts counts = region->recording().counts();
    throttle(); // before, as in flush
    uint64_t value = 0;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (capture_) {
            fail(KPX_INVALID, "a region cannot be replayed inside a capture");
        }
        value = submit_after_last(region, times);
    }
    counters_.replays += times;
    counters_.dispatches += times * counts.dispatches;
    counters_.barriers += times * counts.barriers;
    return value;
}

} // namespace kpx
