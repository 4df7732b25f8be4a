#include "stream/stream.hpp"

#include <algorithm>
#include <cstring>

#include "abi/guard.hpp"
#include "cache/cache.hpp"
#include "ops/op_table.hpp"
#include "record/capture.hpp"
#include "record/lowering.hpp"
#include "record/region.hpp"
#include "runtime/algorithm.hpp"
#include "runtime/device.hpp"
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
      window_(*device_, false) {}

// The last owner may hold the device's mutex, which finish() takes; so a created stream is always finished before this.
Stream::~Stream() {
    if (!finished_) {
        finish();
    }
}

void Stream::finish() noexcept {
    try {
        Window dropped(*device_, false);
        std::unique_ptr<Capture> capture;
        {
            Lock lock(device_->mutex());
            finished_ = true;
            if (point_) {
                point_->pending = false;
                point_->refused =
                    std::make_unique<Error>(KPX_INVALID, "the stream was closed before the work was started");
                point_.reset();
            }
            std::swap(dropped, window_);
            std::swap(capture, capture_);
            waits_.clear();
            followed_.clear();
            staged_ = 0;
        }
        timeline_->wait(timeline_->submitted(), UINT64_MAX);
    } catch (const std::exception &) {
        device_->drain(queue_); // nothing may be freed while the device still uses it
    }
    timeline_->close();
    submissions_.drop();
}

// ---- Appending ----

namespace {

// A checked call with its arrays. An access that was not given counts as both.
void fill_node(OpNode &node, int32_t op, Device &device, const kpx_array *arrays, uint32_t n) {
    node.op = op;
    for (uint32_t i = 0; i < n; i++) {
        node.arrays.push_back(make_array(device, arrays[i]));
        const bool given = arrays[i].access >= KPX_READ && arrays[i].access <= KPX_READ_WRITE;
        node.access.push_back(given ? kpx_access(arrays[i].access) : KPX_READ_WRITE);
    }
}

} // namespace

const std::shared_ptr<Point> &Stream::point() {
    if (window_.empty()) {
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

std::shared_ptr<Point> Stream::last_point() {
    if (!window_.empty()) {
        return point();
    }
    auto made = std::make_shared<Point>();
    made->timeline = timeline_;
    made->value = timeline_->submitted();
    made->stream = weak_from_this();
    return made;
}

// Records how an op appended to the window uses its tensors.
void Stream::note_uses(const kpx_array *arrays, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (arrays[i].tensor == nullptr) {
            continue;
        }
        const std::shared_ptr<Tensor> &tensor = tensor_of(arrays[i].tensor);
        if (arrays[i].access != KPX_READ) {
            tensor->wrote(point());
        } else {
            tensor->read_at(point());
        }
    }
}

// One call may bind a tensor twice: reads of the old content are recorded before writes.
void Stream::note_captured_uses(const kpx_array *arrays, uint32_t n) {
    for (const bool needed : {true, false}) {
        for (uint32_t i = 0; i < n; i++) {
            if (arrays[i].tensor == nullptr) {
                continue;
            }
            const Access access = access_of(arrays[i]);
            if (access.needs == needed) {
                capture_->note(tensor_of(arrays[i].tensor), access.needs, access.writes);
            }
        }
    }
}

template <typename Fill, typename Lower>
void Stream::append(Fill fill, const kpx_array *arrays, uint32_t n, Lower lower, const CallWords *call) {
    Window &window = capture_ ? capture_->window : window_;
    if (window.append(fill, lower, call)) {
        capture_ ? note_captured_uses(arrays, n) : note_uses(arrays, n);
    }
    counters_.ops++;
}

// Appends the op call_ if it comes again as in a window that was recorded: then its dispatches are known.
bool Stream::repeat(const kpx_array *arrays, uint32_t n) {
    if (window_.empty() && !window_.follows()) {
        window_.follow(recordings_.find(call_));
    }
    bool has_dispatch = false;
    if (!window_.follows() || !window_.repeat(call_, device_->memory(), has_dispatch)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (arrays[i].tensor != nullptr) {
            window_.keep(tensor_of(arrays[i].tensor)->buffer);
        }
    }
    if (has_dispatch) {
        note_uses(arrays, n);
    }
    counters_.ops++;
    counters_.repeated_ops++;
    return true;
}

void Stream::op(int32_t op, const kpx_array *arrays, uint32_t n, const void *params, uint32_t size) {
    device_->check_alive();
    op_row(op); // there must be one
    if (size > 0 && params == nullptr) {
        fail(KPX_INVALID, "{} bytes of parameters, and none given", size);
    }
    const auto *bytes = static_cast<const uint8_t *>(params);
    const auto fill = [&](OpNode &node) {
        fill_node(node, op, *device_, arrays, n);
        node.params.assign(bytes, bytes + size);
    };
    Lock lock(device_->mutex());
    report_refused();
    make_ready(lock, *this, arrays, n);
    if (!capture_) {
        call_.describe(op, arrays, n, params, size);
        if (repeat(arrays, n)) {
            return;
        }
    }
    const auto lower = [&](const OpNode &node, Program &program) {
        const OpCall call{node.arrays.data(), n, node.params.data(), size};
        lower_call(*device_, program, op, call, capture_ ? nullptr : &window_.log());
    };
    append(fill, arrays, n, lower, &call_);
}

void Stream::dispatch(const std::shared_ptr<Algorithm> &algorithm, const kpx_array *arrays, uint32_t n, Grid groups,
                      const void *push, uint32_t push_bytes) {
    device_->check_alive();
    const auto fill = [&](OpNode &node) { fill_node(node, OpNode::kOpaque, *device_, arrays, n); };
    Lock lock(device_->mutex());
    report_refused();
    make_ready(lock, *this, arrays, n);
    append(fill, arrays, n, [&](const OpNode &node, Program &program) {
        append_algorithm(*device_, program, algorithm, node.arrays, arrays, groups, push, push_bytes);
    });
}

// Room for bytes in a staging block, at an offset with that phase modulo 4.
Stream::Staged Stream::stage(uint64_t bytes, uint64_t phase) {
    const bool large = bytes > Staging::kSmall / 4;
    std::shared_ptr<HostBlock> &block = upload_blocks_[large];
    if (block && block.use_count() == 1) {
        block->used = 0; // nothing pending or in flight reads it
    }
    const uint64_t alignment = device_->binding_alignment();
    uint64_t offset = block ? (block->used + alignment - 1) / alignment * alignment + phase : 0;
    if (!block || offset + bytes > block->bytes) {
        block = device_->staging().take(Staging::For::upload, large ? Staging::kLarge : Staging::kSmall);
        offset = phase;
    }
    block->used = offset + bytes;
    return {block, offset};
}

void Stream::append_upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes,
                           bool wrapped) {
    const uint64_t to = buffer->offset() + offset;
    const Staged staged = stage(bytes, to % 4);
    if (wrapped) {
        copy_wrapped(staged.block->data + staged.offset, data, bytes);
    } else {
        memcpy(staged.block->data + staged.offset, data, bytes);
    }
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_WRITE); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(*device_, program, {staged.block->buffer, staged.offset, staged.block},
                        {buffer->handle(), to, buffer, buffer.get()}, bytes);
    });
    staged_ += bytes;
}

void Stream::append_read(const std::shared_ptr<Buffer> &buffer, uint64_t offset,
                         const std::shared_ptr<HostBlock> &block, uint64_t block_offset, uint64_t bytes) {
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_READ); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(*device_, program, {buffer->handle(), buffer->offset() + offset, buffer, buffer.get()},
                        {block->buffer, block_offset, block}, bytes);
    });
    window_.read_by_host();
}

void Stream::count_upload(uint64_t bytes) {
    counters_.uploads++;
    counters_.upload_bytes += bytes;
}

// ---- Order between streams ----

void Stream::wait_for(const std::shared_ptr<Timeline> &timeline, uint64_t value) {
    for (Wait &wait : waits_) {
        if (wait.timeline == timeline) {
            wait.value = std::max(wait.value, value);
            return;
        }
    }
    waits_.push_back({timeline, value, nullptr});
}

// It is not enough that the host knows the point to be done: its writes must be visible to the device. For a closed
// stream, which has waited for all its work, they are.
bool Stream::follow(const std::shared_ptr<Point> &point) {
    if (!point || point->refused || point->timeline == timeline_ || point->timeline->closed()) {
        return true;
    }
    if (point->pending) {
        if (const std::shared_ptr<Stream> other = point->stream.lock()) {
            other->submit_for_others();
        }
        if (point->refused) {
            return false;
        }
        if (point->pending) {
            fail(KPX_INTERNAL, "a window stays pending");
        }
    }
    if (followed_.size() >= most_followed_) {
        for (auto it = followed_.begin(); it != followed_.end();) {
            it = it->first->closed() ? followed_.erase(it) : std::next(it);
        }
        most_followed_ = std::max<size_t>(64, 2 * followed_.size());
    }
    if (followed_[point->timeline] >= point->value) {
        return true;
    }
    if (!window_.empty()) {
        submit_pending();
    }
    wait_for(point->timeline, point->value);
    followed_[point->timeline] = point->value;
    return true;
}

void Stream::depend(const Stream &other, uint64_t value) {
    if (other.device_ != device_) {
        fail(KPX_INVALID, "a stream can only wait for a stream of its own device");
    }
    if (value > other.timeline_->submitted()) {
        fail(KPX_INVALID, "a stream cannot wait for value {}, which was not submitted", value);
    }
    if (&other == this || value == 0) {
        return; // a stream runs in order
    }
    Lock lock(device_->mutex());
    report_refused();
    if (!window_.empty()) {
        submit_pending();
    }
    wait_for(other.timeline_, value);
}

std::shared_ptr<Gate> Stream::hold() {
    device_->check_alive();
    Lock lock(device_->mutex());
    report_refused();
    if (!window_.empty()) {
        submit_pending();
    }
    auto gate = std::make_shared<Gate>(device_);
    waits_.push_back({nullptr, 0, gate});
    return gate;
}

// ---- Submitting ----

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

void Stream::submit_for_others() noexcept {
    try {
        submit_pending();
    } catch (...) {
        if (kind_ == KPX_STREAM_COMPUTE && !unreported_) {
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
        work.staged = staged_;
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
    staged_ = 0;
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
    staged_ = 0;
    device_->cache_changed(); // regions must check their tensors again
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

void Stream::wait(uint64_t value, uint64_t timeout_ns) {
    if (value > timeline_->submitted()) {
        fail(KPX_INVALID, "cannot wait for value {}, which was not submitted", value);
    }
    counters_.waits++;
    timeline_->wait(value, timeout_ns);
    collect();
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
    const Counters &c = counters_;
    kpx_stream_stats out{};
    out.ops = c.ops;
    out.repeated_ops = c.repeated_ops;
    out.dispatches = c.dispatches;
    out.barriers = c.barriers;
    out.submits = c.submits;
    out.descriptor_writes = c.descriptor_writes;
    out.recorded_commands = c.commands;
    out.uploads = c.uploads;
    out.upload_bytes = c.upload_bytes;
    out.waits = c.waits;
    out.record_ns = c.record_ns;
    out.submit_ns = c.submit_ns;
    out.replays = c.replays;
    return out;
}

} // namespace kpx
