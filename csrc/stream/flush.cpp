// A stream records its window and submits it.
#include "abi/guard.hpp"
#include "cache/cache.hpp"
#include "record/region.hpp"
#include "runtime/device.hpp"
#include "runtime/stopwatch.hpp"
#include "stream/stream.hpp"

namespace kpx {

void Stream::report_refused() {
    if (unreported_) {
        const std::unique_ptr<Error> error = std::move(unreported_);
        throw Error(*error);
    }
}

// Throttle first: once the work is submitted, nothing may fail any more.
uint64_t Stream::flush(uint64_t timeout_ns) {
    throttle(timeout_ns);
    Lock lock(device_->mutex());
    report_refused();
    return submit_pending();
}

void Stream::submit_for(const Stream *caller) noexcept {
    try {
        submit_pending();
    } catch (...) {
        if (caller != this && kind_ == KPX_STREAM_COMPUTE && !unreported_) {
            unreported_ = std::make_unique<Error>(current_error());
        }
    }
}

uint64_t Stream::submit_pending(std::shared_ptr<Region> region, uint32_t times) {
    if (window_.empty() && waits_.empty() && !region) {
        window_.log().clear(); // of work on no elements
        device_->check_alive();
        return timeline_->submitted();
    }
    const std::shared_ptr<Point> point = std::move(point_);
    point_.reset();
    try {
        device_->check_alive();
        Submission work;
        work.value = timeline_->submitted() + 1;
        work.staged = uploads_.pending();
        work.region = std::move(region);
        work.times = times;
        if (!window_.empty()) {
            record(work);
        }
        submit(std::move(work));
    } catch (...) {
        refuse(point);
        throw;
    }
    uploads_.taken();
    if (point) {
        point->pending = false;
    }
    return timeline_->submitted();
}

void Stream::submit(Submission work) {
    Stopwatch watch(counters_.submit_ns);
    work.waits = waits_;
    const std::shared_ptr<Recording> recording = work.recording; // the work may be done, and freed, at once
    const std::shared_ptr<Region> region = work.region;
    const uint32_t times = work.times;
    submissions_.submit(std::move(work));
    if (recording) {
        recording->count_calls(1);
    }
    if (region) {
        region->recording().count_calls(times);
    }
    waits_.clear();
    counters_.submits++;
}

// The window is discarded; the next one takes over its waits. Tensors learn of the refusal through the window's point.
void Stream::refuse(const std::shared_ptr<Point> &point) {
    if (point) {
        point->pending = false;
        point->refused = std::make_unique<Error>(current_error());
    }
    window_.clear();
    uploads_.taken();
    device_->changes().add_all();
}

void Stream::record(Submission &work) {
    Stopwatch watch(counters_.record_ns);
    struct Emptied {
        Window &window;
        ~Emptied() { window.clear(); } // also if recording fails
    } const emptied{window_};
    work.timing = times_.timing();
    const KnownWindow *repeated = work.timing == KPX_TIME_NOTHING ? window_.repeated() : nullptr;
    if (repeated != nullptr) {
        work.recording = recordings_.repeat(*repeated);
    }
    bool known = work.recording != nullptr;
    if (known) {
        work.program = window_.take_kept();
    } else {
        work.program = window_.take();
    }
    if (work.timing != KPX_TIME_NOTHING) {
        work.recording =
            std::make_shared<Recording>(device_, queue_, work.program, Recording::Runs::once, Recording::Timed::each);
    } else if (!known) {
        work.recording = recordings_.get(device_, queue_, work.program, known, &window_.log());
    }
    const Recording::Counts &counts = work.recording->counts();
    counters_.dispatches += counts.dispatches;
    counters_.barriers += counts.barriers;
    if (!known) {
        counters_.descriptor_writes += counts.descriptor_writes;
        counters_.commands += counts.commands;
    }
}

} // namespace kpx
