#include "stream/stream.hpp"

#include <chrono>
#include <thread>

#include "abi/guard.hpp"
#include "cache/cache.hpp"
#include "ops/op_table.hpp"
#include "record/capture.hpp"
#include "record/region.hpp"
#include "runtime/device.hpp"
#include "runtime/missing.hpp"
#include "runtime/prefetch.hpp"
#include "runtime/stopwatch.hpp"

namespace kpx {

std::shared_ptr<Stream> Stream::create(std::shared_ptr<Device> device, kpx_stream_kind kind) {
    device->check_alive();
    std::shared_ptr<Stream> stream(new Stream(device, kind));
    device->add_stream(stream);
    return stream;
}

Stream::Stream(std::shared_ptr<Device> device, kpx_stream_kind kind)
    : device_(std::move(device)), queue_(device_->next_queue()), number_(device_->next_stream()), kind_(kind),
      timeline_(std::make_shared<Timeline>(device_)), times_(device_), submissions_(device_, queue_, timeline_, times_),
      pending_(*device_) {}

// The last owner may hold the device's mutex, which finish() takes; so a created stream is always finished before this.
Stream::~Stream() {
    if (!finished_) {
        finish();
    }
}

void Stream::finish() noexcept {
    {
        Window dropped(*device_, false); // freed without the mutex
        std::unique_ptr<Capture> capture;
        Lock lock(device_->mutex());
        finished_ = true;
        if (point_) {
            point_->refuse(kRefusedByClosing);
            point_.reset();
        }
        dropped = pending_.discard();
        std::swap(capture, capture_);
        waits_.clear();
    }
    wait_for_all();
    timeline_->close();
    submissions_.drop();
}

// A closed timeline counts as done, so this also waits for work that a gate holds back, even if the driver cannot wait
// because it lacks memory.
void Stream::wait_for_all() noexcept {
    constexpr std::chrono::milliseconds kPause{1};
    for (;;) {
        try {
            timeline_->wait(timeline_->submitted(), UINT64_MAX);
            return;
        } catch (...) {
            if (device_->lost() || timeline_->queued() == timeline_->submitted()) {
                break;
            }
        }
        std::this_thread::sleep_for(kPause);
    }
    device_->drain(queue_); // nothing may be freed while the device still uses it
}

// ---- Work ----

void Stream::op(const RawCall &call) {
    op_row(call.op); // there must be one
    if (call.size > 0 && call.params == nullptr) {
        fail(KPX_INVALID, "{} bytes of parameters, but none were given", call.size);
    }
    for (uint32_t i = 0; i < call.n; i++) { // between two tokens, hundreds of tensors have left the cache
        prefetch(call.arrays[i].tensor, sizeof(Tensor));
    }
    append(call);
}

void Stream::dispatch(const DispatchCall &call) {
    append(call);
}

// Throws the exception being handled again, marked so that the caller learns that earlier work is lost.
[[noreturn]] static void throw_lost() {
    Error error = current_error();
    error.of_window = true;
    throw error;
}

// What a lowering misses is made without the mutex, so others may use the operands meanwhile.
template <typename Call> void Stream::append(const Call &call) {
    device_->check_alive();
    Lock lock(device_->mutex());
    for (bool again = false, appended = false; !appended; again = true) {
        report_refused();
        make_ready(lock, *this, call.arrays, call.n, again);
        try {
            append_ready(call);
            appended = true;
        } catch (const Missing &missing) {
            const Unlocked unlocked(lock);
            missing.make();
        }
    }
    counters_.ops++;
}

template <typename Call> void Stream::append_ready(const Call &call) {
    if (capture_) {
        capture_->append(call);
    } else if (pending_.append(call)) {
        irreplaceable_ = true;
        note([&](const std::shared_ptr<Point> &window) { note_uses(call.arrays, call.n, window); });
    }
}

void Stream::begin_capture() {
    device_->check_alive();
    Lock lock(device_->mutex());
    report_refused();
    if (capture_) {
        fail(KPX_INVALID, "the stream is capturing already");
    }
    capture_ = std::make_unique<Capture>(*device_);
}

std::unique_ptr<Capture> Stream::take_capture() {
    if (!capture_) {
        fail(KPX_INVALID, "the stream is not capturing");
    }
    return std::move(capture_);
}

void Stream::abort_capture() noexcept {
    std::unique_ptr<Capture> dropped;
    Lock lock(device_->mutex());
    std::swap(dropped, capture_);
}

// ---- Submitting ----

void Stream::report_refused() {
    if (unreported_) {
        Error error = std::move(*unreported_);
        unreported_.reset();
        throw error;
    }
}

// Throttle first: once the work is submitted, nothing may fail any more.
uint64_t Stream::flush(uint64_t timeout_ns) {
    throttle(timeout_ns);
    Lock lock(device_->mutex());
    report_refused();
    return submit_pending();
}

bool Stream::submit_for(const Stream *caller) noexcept {
    try {
        submit_pending();
    } catch (...) {
        Error error = current_error();
        if (error.of_window && caller != this && kind_ == KPX_STREAM_COMPUTE && !unreported_) {
            unreported_ = std::move(error);
        }
        return error.of_window && caller == this;
    }
    return false;
}

uint64_t Stream::submit_pending(std::shared_ptr<Region> region, uint32_t times) {
    if (pending_.empty() && waits_.next().empty() && !region) {
        pending_.clear(); // work on no elements
        device_->check_alive();
        return timeline_->submitted();
    }
    const std::shared_ptr<Point> point = std::move(point_);
    point_.reset();
    const bool irreplaceable = std::exchange(irreplaceable_, false);
    try {
        device_->check_alive();
        Submission work;
        work.value = timeline_->submitted() + 1;
        work.staged = pending_.staged();
        work.region = std::move(region);
        work.times = times;
        if (!pending_.empty()) {
            record(work);
        }
        submit(std::move(work));
    } catch (...) {
        refuse(point);
        if (irreplaceable) {
            throw_lost();
        }
        throw;
    }
    pending_.submitted();
    if (point) {
        point->pending = false;
    }
    return timeline_->submitted();
}

void Stream::submit(Submission work) {
    Stopwatch watch(counters_.submit_ns);
    work.waits = waits_.next();
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
    waits_.submitted();
    counters_.submits++;
}

void Stream::submit_before() {
    if (!pending_.empty()) {
        submit_pending();
    }
}

// The window is discarded; the next one takes over its waits. Tensors learn of the refusal through the window's point.
void Stream::refuse(const std::shared_ptr<Point> &point) {
    if (point) {
        point->refuse(current_error());
    }
    pending_.clear();
    irreplaceable_ = false;
    device_->changes().add_all();
}

void Stream::refuse_unknown() {
    const bool irreplaceable = irreplaceable_;
    refuse(std::exchange(point_, nullptr));
    if (irreplaceable) {
        throw_lost();
    }
    throw;
}

void Stream::record(Submission &work) {
    Stopwatch watch(counters_.record_ns);
    work.timing = times_.timing();
    const bool known = pending_.record(device_, queue_, work);
    counters_.add_window(work.recording->counts(), known);
}

uint64_t Stream::submit_recording(const std::shared_ptr<Recording> &recording, const std::shared_ptr<Region> &owner) {
    submit_before();
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
    return timeline_->submitted();
}

void Stream::wait(uint64_t value, uint64_t timeout_ns) {
    if (value > timeline_->submitted()) {
        fail(KPX_INVALID, "cannot wait for value {}, which was not submitted", value);
    }
    counters_.waits++;
    timeline_->wait(value, timeout_ns);
    collect();
}

// ---- Points ----

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

// ---- Counters ----

std::vector<kpx_op_time> Stream::op_times() {
    collect();
    return times_.sums();
}

uint64_t Stream::take_spans(kpx_op_span *out, uint64_t n) {
    collect();
    return times_.take_spans(out, n);
}

kpx_stream_stats Stream::stats() const {
    kpx_stream_stats out = counters_.stats();
    out.repeated_ops = pending_.repeated_ops();
    return out;
}

} // namespace kpx
