// A stream captures, replays and profiles regions.
#include <algorithm>

#include "cache/cache.hpp"
#include "record/capture.hpp"
#include "record/recording.hpp"
#include "record/region.hpp"
#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

void Stream::begin_capture() {
    device_->check_alive();
    Lock lock(device_->mutex());
    report_refused();
    if (capture_) {
        fail(KPX_INVALID, "the stream is capturing already");
    }
    capture_ = std::make_unique<Capture>(*device_);
}

std::shared_ptr<Region> Stream::end_capture() {
    std::unique_ptr<Capture> captured;
    std::vector<RegionUse> uses;
    {
        Lock lock(device_->mutex());
        if (!capture_) {
            fail(KPX_INVALID, "the stream is not capturing");
        }
        std::swap(captured, capture_);
        uses = captured->take_uses(); // releases the region's own tensors, which are planned into new memory
        report_refused();
        submit_pending(); // uploads that the region needs
    }
    auto region = std::make_shared<Region>(device_, queue_, std::move(captured->window), device_->passes());
    Lock lock(device_->mutex());
    region->use(std::move(uses));
    prepare_first(lock, *region);
    return region;
}

void Stream::abort_capture() noexcept {
    std::unique_ptr<Capture> dropped;
    Lock lock(device_->mutex());
    std::swap(dropped, capture_);
}

void Stream::check_replay(const Region &region) const {
    device_->check_alive();
    if (region.device() != device_) {
        fail(KPX_INVALID, "the region was captured on another device");
    }
}

void Stream::check_changed(Lock &lock, Region &region) {
    region.check_changed(timeline_, [&](const RegionUse &use) {
        make_ready(lock, *this, use.tensor, {use.needs, use.writes});
    });
}

// Prepares those of the region's tensors for this stream that were used since the last time.
void Stream::prepare(Lock &lock, Region &region) {
    report_refused();
    if (capture_) {
        fail(KPX_INVALID, "a region cannot be replayed inside a capture");
    }
    check_changed(lock, region);
    if (region.last) {
        follow_last(region);
    }
}

// Replays share the region's memory: wait for one of another stream first.
void Stream::follow_last(const Region &region) {
    if (region.last->timeline != timeline_ && !region.last->timeline->closed()) {
        wait_for(region.last->timeline, region.last->value);
    }
}

// Gives the region a point of this stream, after all work that was submitted.
void Stream::set_last(Region &region) {
    auto last = std::make_shared<Point>();
    last->timeline = timeline_;
    last->stream = weak_from_this();
    last->value = timeline_->submitted();
    region.set_last(std::move(last));
}

// Prepares the tensors of a new region, so that its first replay need not: there are hundreds of weights. What it
// writes is left to the first replay, and so is reporting why a tensor is not ready.
void Stream::prepare_first(Lock &lock, Region &region) {
    try {
        check_changed(lock, region);
    } catch (const Error &) {
        return;
    }
    set_last(region);
    region.mark([&](const RegionUse &use) {
        if (!use.writes) {
            use.tensor->read_at(region.last);
        }
        return !use.writes;
    });
}

// Records what submitted replays do with the tensors. The region's tensors share a point, which moves forward.
void Stream::note_replay(Region &region) {
    if (!region.last || region.last->timeline != timeline_) {
        set_last(region);
    }
    region.last->value = timeline_->submitted();
    region.mark([&](const RegionUse &use) {
        use.writes ? use.tensor->wrote(region.last) : use.tensor->read_at(region.last);
        return true;
    });
}

uint64_t Stream::replay(const std::shared_ptr<Region> &region, uint32_t times, uint64_t timeout_ns) {
    check_replay(*region);
    if (times == 0 || times > KPX_MOST_REPLAYS) {
        fail(KPX_INVALID, "a region is replayed 1 to {} times at once, not {}", KPX_MOST_REPLAYS, times);
    }
    const Recording::Counts &counts = region->recording().counts();
    throttle(timeout_ns); // before locking, as in flush
    uint64_t value = 0;
    {
        Lock lock(device_->mutex());
        prepare(lock, *region);
        value = submit_pending(region, times);
        note_replay(*region);
    }
    counters_.replays += times;
    counters_.dispatches += times * counts.dispatches;
    counters_.barriers += times * counts.barriers;
    return value;
}

// Submits pending work, and then that recording of the region.
uint64_t Stream::run(const std::shared_ptr<Recording> &recording, const std::shared_ptr<Region> &owner) {
    Lock lock(device_->mutex());
    prepare(lock, *owner);
    if (!window_.empty()) {
        submit_pending();
    }
    Submission work;
    work.value = timeline_->submitted() + 1;
    work.recording = recording;
    work.region = owner; // kept, not run
    try {
        submit(std::move(work));
    } catch (...) {
        refuse(nullptr);
        throw;
    }
    note_replay(*owner);
    return timeline_->submitted();
}

uint64_t Stream::profile(const std::shared_ptr<Region> &region, Recording::Timed timed) {
    check_replay(*region);
    const Recording::Counts &counts = region->recording().counts();
    const std::lock_guard<std::mutex> lock(region->profiling);
    const std::shared_ptr<Recording> &recording = region->timed(queue_, timed);
    const uint64_t submitted = host_clock_ns();
    const uint64_t value = run(recording, region);
    region->profiled(recording, submitted, timeline_, value);
    counters_.replays++;
    counters_.dispatches += counts.dispatches;
    counters_.barriers += counts.barriers;
    return value;
}

} // namespace kpx
