#include "stream/stream.hpp"

#include "abi/error.hpp"
#include "ops/op_table.hpp"
#include "record/lowering.hpp"
#include "record/recording.hpp"
#include "record/region.hpp"
#include "runtime/algorithm.hpp"
#include "runtime/device.hpp"
#include "runtime/stopwatch.hpp"

namespace kpx {

std::shared_ptr<Stream> Stream::create(std::shared_ptr<Device> device) {
    device->check_alive();
    std::shared_ptr<Stream> stream(new Stream(device));
    device->add_stream(stream);
    return stream;
}

Stream::Stream(std::shared_ptr<Device> device)
    : device_(std::move(device)), queue_(device_->next_queue()), timeline_(std::make_shared<Timeline>(device_)),
      window_(new_window()) {}

Stream::~Stream() {
    finish();
}

void Stream::finish() noexcept {
    try {
        Window dropped = new_window();
        std::unique_ptr<Window> capture;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            std::swap(dropped, window_);
            std::swap(capture, capture_);
            waits_.clear();
            staged_ = 0;
        }
        timeline_->wait(timeline_->submitted(), UINT64_MAX);
    } catch (const std::exception &) {
        device_->drain(queue_); // nothing may be freed under a device that still runs
    }
    drop_held();
    std::deque<InFlight> done;
    std::lock_guard<std::mutex> lock(flight_mutex_);
    std::swap(done, in_flight_);
}

namespace {

// A call with its arrays, checked. An access that was not given counts as both.
void fill_node(OpNode &node, int32_t op, Device &device, const kpx_array *arrays, uint32_t n) {
    node.op = op;
    for (uint32_t i = 0; i < n; i++) {
        node.arrays.push_back(make_array(device, arrays[i]));
        const bool given = arrays[i].access >= KPX_READ && arrays[i].access <= KPX_READ_WRITE;
        node.access.push_back(given ? kpx_access(arrays[i].access) : KPX_READ_WRITE);
    }
}

} // namespace

void Stream::op(int32_t op, const kpx_array *arrays, uint32_t n, const void *params, uint32_t size) {
    device_->check_alive();
    op_row(op); // there must be one
    if (size > 0 && params == nullptr) {
        fail(KPX_INVALID, "%u bytes of parameters, and none given", size);
    }
    const auto *bytes = static_cast<const uint8_t *>(params);
    const auto fill = [&](OpNode &node) {
        fill_node(node, op, *device_, arrays, n);
        node.params.assign(bytes, bytes + size);
    };
    std::lock_guard<std::mutex> lock(mutex_);
    appended().append(fill, [&](const OpNode &node, Program &program) {
        ProgramLowering lowering(*device_, program);
        lower_op(op, lowering, OpCall{node.arrays.data(), n, node.params.data(), size});
    });
    counters_.ops++;
}

void Stream::dispatch(const std::shared_ptr<Algorithm> &algorithm, const kpx_array *arrays, uint32_t n, Grid groups,
                      const void *push, uint32_t push_bytes) {
    device_->check_alive();
    const auto fill = [&](OpNode &node) { fill_node(node, OpNode::kOpaque, *device_, arrays, n); };
    std::lock_guard<std::mutex> lock(mutex_);
    appended().append(fill, [&](const OpNode &node, Program &program) {
        append_algorithm(*device_, program, algorithm, node.arrays, arrays, groups, push, push_bytes);
    });
    counters_.ops++;
}

void Stream::depend(const Stream &other, uint64_t value) {
    if (other.device_ != device_) {
        fail(KPX_INVALID, "a stream can only wait for a stream of its own device");
    }
    if (value > other.timeline_->submitted()) {
        fail(KPX_INVALID, "a stream cannot wait for value %llu, which was not submitted", (unsigned long long)value);
    }
    if (&other == this || value == 0) {
        return; // a stream is in order
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (!window_.empty()) {
        submit_pending();
    }
    wait_for(other.timeline_, value);
}

void Stream::wait_for(const std::shared_ptr<Timeline> &timeline, uint64_t value) {
    for (Wait &wait : waits_) {
        if (wait.timeline == timeline) {
            wait.value = std::max(wait.value, value);
            return;
        }
    }
    waits_.push_back({timeline, value, nullptr});
}

// Throttled before: once the work is submitted, nothing may fail any more.
uint64_t Stream::flush() {
    throttle();
    std::lock_guard<std::mutex> lock(mutex_);
    return submit_pending();
}

uint64_t Stream::submit_pending(std::shared_ptr<Region> region, uint32_t times) {
    device_->check_alive();
    if (window_.empty() && waits_.empty() && !region) {
        return timeline_->submitted();
    }
    InFlight work{timeline_->submitted() + 1, staged_, {}, nullptr, std::move(region), times, KPX_TIME_NOTHING, {}, 0};
    staged_ = 0;
    if (!window_.empty()) {
        record(work);
    }
    submit(std::move(work), std::move(waits_));
    waits_.clear();
    return timeline_->submitted();
}

void Stream::record(InFlight &work) {
    Stopwatch watch(counters_.record_ns);
    struct Emptied {
        Window &window;
        ~Emptied() { window.clear(); } // also if recording fails
    } const emptied{window_};
    work.timing = timing_;
    work.program = window_.take();
    bool known = false;
    if (work.timing != KPX_TIME_NOTHING) {
        work.recording =
            std::make_shared<Recording>(device_, queue_, work.program, Recording::Runs::once, Recording::Timed::each);
    } else {
        work.recording = recordings_.get(device_, queue_, work.program, known);
    }
    const Recording::Counts &counts = work.recording->counts();
    counters_.dispatches += counts.dispatches;
    counters_.barriers += counts.barriers;
    if (!known) {
        counters_.descriptor_writes += counts.descriptor_writes;
        counters_.commands += counts.commands;
    }
}

vk::Result Stream::launch(const InFlight &work, std::vector<vk::CommandBuffer> &commands) {
    std::vector<vk::Semaphore> semaphores;
    std::vector<uint64_t> values;
    for (const Wait &wait : work.waits) {
        if (wait.timeline) {
            semaphores.push_back(wait.timeline->semaphore());
            values.push_back(wait.timeline->semaphore_value(wait.value));
        }
    }
    const std::vector<vk::PipelineStageFlags> stages(values.size(), vk::PipelineStageFlagBits::eComputeShader);
    const vk::Semaphore signal = timeline_->semaphore();
    const uint64_t signal_value = timeline_->semaphore_value(work.value);
    const vk::TimelineSemaphoreSubmitInfo timeline(values, signal_value);
    commands.clear();
    if (work.recording) {
        commands.push_back(work.recording->commands());
    }
    if (work.region) {
        commands.insert(commands.end(), work.times, work.region->recording().commands());
    }
    vk::SubmitInfo info(semaphores, stages, commands, signal);
    info.pNext = &timeline;
    const uint64_t value = work.value; // work may be done, and gone, once it is submitted
    std::lock_guard<std::mutex> lock(queue_.mutex);
    const vk::Result result = queue_.handle->submit(1, &info, nullptr);
    if (result == vk::Result::eSuccess) {
        timeline_->set_queued(value);
    }
    return result;
}

void Stream::submit(InFlight work, std::vector<Wait> waits) {
    Stopwatch watch(counters_.submit_ns);
    const uint64_t value = work.value;
    work.waits = std::move(waits);
    work.submitted_ns = work.timing == KPX_TIME_NOTHING ? 0 : host_clock_ns();
    const InFlight *listed;
    {
        // Listed first: nothing may fail between the submission and its entry here.
        std::lock_guard<std::mutex> lock(flight_mutex_);
        in_flight_.push_back(std::move(work));
        listed = &in_flight_.back();
    }
    const vk::Result result = launch_or_hold(*listed);
    if (result != vk::Result::eSuccess) {
        std::unique_lock<std::mutex> lock(flight_mutex_);
        InFlight failed = std::move(in_flight_.back());
        in_flight_.pop_back();
        lock.unlock();
        device_->check(result, "vkQueueSubmit");
    }
    timeline_->set_submitted(value);
    counters_.submits++;
}

// Keeps a caller that enqueues faster than the device runs from piling up work.
void Stream::throttle() {
    for (;;) {
        uint64_t oldest = 0;
        {
            std::lock_guard<std::mutex> lock(flight_mutex_);
            uint64_t staged = 0;
            for (const InFlight &work : in_flight_) {
                staged += work.staged;
            }
            if (in_flight_.size() < kMostInFlight && staged <= kMostStaged) {
                return;
            }
            oldest = in_flight_.front().value;
            if (oldest > timeline_->queued()) {
                return; // held back: that may last
            }
        }
        timeline_->wait(oldest, UINT64_MAX);
        collect();
    }
}

void Stream::wait(uint64_t value, uint64_t timeout_ns) {
    if (value > timeline_->submitted()) {
        fail(KPX_INVALID, "cannot wait for value %llu, which was not submitted", (unsigned long long)value);
    }
    counters_.waits++;
    timeline_->wait(value, timeout_ns);
    collect();
}

void Stream::collect() {
    std::deque<InFlight> done;
    std::unique_lock<std::mutex> lock(flight_mutex_);
    if (in_flight_.empty() || device_->lost()) {
        return;
    }
    const uint64_t completed = timeline_->completed();
    while (!in_flight_.empty() && in_flight_.front().value <= completed) {
        done.push_back(std::move(in_flight_.front()));
        in_flight_.pop_front();
    }
    lock.unlock();
    for (const InFlight &work : done) {
        if (work.timing != KPX_TIME_NOTHING && work.recording) {
            add_times(work);
        }
    }
}

kpx_stream_stats Stream::stats() const {
    const Counters &c = counters_;
    kpx_stream_stats out{};
    out.ops = c.ops;
    out.dispatches = c.dispatches;
    out.barriers = c.barriers;
    out.submits = c.submits;
    out.descriptor_writes = c.descriptor_writes;
    out.recorded_commands = c.commands;
    out.uploads = c.uploads;
    out.upload_bytes = c.upload_bytes;
    out.downloads = c.downloads;
    out.download_bytes = c.download_bytes;
    out.waits = c.waits;
    out.record_ns = c.record_ns;
    out.submit_ns = c.submit_ns;
    out.replays = c.replays;
    return out;
}

} // namespace kpx
