#include "stream/replay.hpp"

#include <algorithm>

#include "cache/cache.hpp"
#include "record/capture.hpp"
#include "runtime/device.hpp"

namespace kpx {

namespace {

void check_replay(const Stream &stream, const Region &region) {
    stream.device()->check_alive();
    if (region.device() != stream.device()) {
        fail(KPX_INVALID, "the region was captured on another device");
    }
}

void check_changed(Lock &lock, Stream &stream, Region &region) {
    region.check_changed(stream.timeline(), [&](const RegionUse &use) {
        make_ready(lock, stream, use.tensor, {use.needs, use.writes});
    });
}

// Follows again the points of tensors that do not remember this region. Replays of other regions may have moved these
// points on since the tensors were ready, which is no change. False if a tensor must be checked again.
bool follow_moved(Stream &stream, const Region &region) {
    bool followed = true;
    region.each_unmarked(
        [&](const RegionUse &use) { followed = followed && follow_all(stream, *use.tensor, use.writes); });
    return followed;
}

// Prepares those of the region's tensors for this stream that were used since the last time. Replays share memory, so
// those of other streams must end first.
void prepare(Lock &lock, Stream &stream, Region &region) {
    stream.report_refused();
    if (stream.capturing()) {
        fail(KPX_INVALID, "a region cannot be replayed inside a capture");
    }
    do {
        check_changed(lock, stream, region);
    } while (!follow_moved(stream, region));
    const auto after = [&](const std::shared_ptr<Timeline> &timeline, uint64_t value) {
        if (timeline && timeline != stream.timeline() && !timeline->closed()) {
            stream.waits().add(timeline, value);
        }
    };
    if (region.last) {
        after(region.last->timeline, region.last->value);
    }
    for (const std::shared_ptr<Arena> &arena : region.memory().shared()) {
        after(arena->timeline, arena->value);
    }
}

// Prepares the tensors of a new region, so that its first replay does not have to: there are hundreds of weights. What
// it writes is left to the first replay, and so is reporting why a tensor is not ready.
void prepare_first(Lock &lock, Stream &stream, Region &region) {
    try {
        check_changed(lock, stream, region);
    } catch (const Error &) {
        return;
    }
    region.set_last(stream.submitted_point());
    region.mark([&](const RegionUse &use) {
        if (!use.writes) {
            use.tensor->read_at(region.last);
        }
        return !use.writes;
    });
}

// The point that the region's tensors are to share after a replay, which moves forward with each one. Also makes room
// to record it: once the replay is submitted, nothing may fail any more.
std::shared_ptr<Point> make_point(Stream &stream, Region &region) {
    const bool goes_on = region.last && region.last->timeline == stream.timeline();
    const auto make_room = [](const RegionUse &use) {
        if (!use.writes) {
            use.tensor->expect_reader();
        }
    };
    if (goes_on) {
        region.each_unmarked(make_room);
        return region.last;
    }
    std::for_each(region.uses().begin(), region.uses().end(), make_room);
    return stream.submitted_point();
}

// Records what submitted replays do with the tensors.
void note_replay(Stream &stream, Region &region, const std::shared_ptr<Point> &point) noexcept {
    if (region.last != point) {
        region.set_last(point);
    }
    region.last->value = stream.timeline()->submitted();
    for (const std::shared_ptr<Arena> &arena : region.memory().shared()) {
        arena->timeline = stream.timeline();
        arena->value = stream.timeline()->submitted();
    }
    region.mark([&](const RegionUse &use) {
        use.writes ? use.tensor->wrote(region.last) : use.tensor->read_at(region.last);
        return true;
    });
}

} // namespace

std::shared_ptr<Region> end_capture(Stream &stream) {
    const std::shared_ptr<Device> &device = stream.device();
    std::unique_ptr<Capture> captured; // until the region uses the tensors
    std::vector<RegionUse> uses;
    or_when_done(*device, [&] {
        Lock lock(device->mutex());
        if (!captured) {
            captured = stream.take_capture();
            uses = captured->release_own(); // which are planned into new memory
        }
        for (const RegionUse &use : uses) {
            if (use.tensor->buffer) {
                device->memory().place(*use.tensor->buffer);
            }
        }
    });
    {
        Lock lock(device->mutex());
        stream.report_refused();
        stream.submit_pending(); // uploads that the region needs
    }
    auto region = std::make_shared<Region>(device, stream.queue(), std::move(captured->window), device->passes(),
                                           stream.arenas());
    Lock lock(device->mutex());
    region->use(std::move(uses));
    prepare_first(lock, stream, *region);
    return region;
}

uint64_t replay(Stream &stream, const std::shared_ptr<Region> &region, uint32_t times, uint64_t timeout_ns) {
    check_replay(stream, *region);
    if (times == 0 || times > KPX_MOST_REPLAYS) {
        fail(KPX_INVALID, "a region is replayed 1 to {} times at once, not {}", KPX_MOST_REPLAYS, times);
    }
    stream.throttle(timeout_ns); // before locking, as in flush
    Lock lock(stream.device()->mutex());
    prepare(lock, stream, *region);
    const std::shared_ptr<Point> point = make_point(stream, *region);
    const uint64_t value = stream.submit_pending(region, times);
    note_replay(stream, *region, point);
    stream.counters().add_replays(region->recording().counts(), times);
    return value;
}

uint64_t profile(Stream &stream, const std::shared_ptr<Region> &region, Recording::Timed timed) {
    check_replay(stream, *region);
    const std::lock_guard<std::mutex> profiling(region->profiling);
    const std::shared_ptr<Recording> &recording = region->timed(stream.queue(), timed);
    const uint64_t submitted = host_clock_ns();
    uint64_t value = 0;
    {
        Lock lock(stream.device()->mutex());
        prepare(lock, stream, *region);
        const std::shared_ptr<Point> point = make_point(stream, *region);
        value = stream.submit_recording(recording, region);
        note_replay(stream, *region, point);
    }
    region->profiled(recording, submitted, stream.timeline(), value);
    stream.counters().add_replays(region->recording().counts(), 1);
    return value;
}

} // namespace kpx
