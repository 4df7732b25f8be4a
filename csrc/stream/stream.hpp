// A stream: work in order, appended to a window, recorded and submitted when
// flushed. A timeline value per submission tells what is done.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "graph/arenas.hpp"
#include "record/append.hpp"
#include "record/recording.hpp"
#include "stream/counters.hpp"
#include "stream/op_times.hpp"
#include "stream/pending.hpp"
#include "stream/point.hpp"
#include "stream/submissions.hpp"
#include "stream/waits.hpp"

namespace kpx {

class Capture;
class Region;

// A lock of the device's mutex; functions that take it may release it while they wait.
using Lock = std::unique_lock<std::mutex>;

// Releases the lock in a scope.
class Unlocked {
  public:
    explicit Unlocked(Lock &lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;

  private:
    Lock &lock_;
};

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    static std::shared_ptr<Stream> create(std::shared_ptr<Device> device, kpx_stream_kind kind);
    ~Stream();
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    const std::shared_ptr<Device> &device() const { return device_; }
    const std::shared_ptr<Timeline> &timeline() const { return timeline_; }
    const Queue &queue() const { return queue_; }

    // ---- Calls of the C ABI. Nothing stays appended when they throw ----
    void op(const RawCall &call);
    void dispatch(const DispatchCall &call);
    // From now on op() and dispatch() append to a region instead, until end_capture() (replay.hpp).
    void begin_capture();
    void abort_capture() noexcept;
    // Starts or stops timing, op by op, work that is appended from now on and not captured.
    void time_ops(kpx_timing timing) { times_.set(queue_, timing); }
    std::vector<kpx_op_time> op_times();
    uint64_t take_spans(kpx_op_span *out, uint64_t n);
    // Submits pending work and returns the value that is reached when it is done.
    uint64_t flush(uint64_t timeout_ns);
    void wait(uint64_t value, uint64_t timeout_ns);
    // Releases the resources of finished work.
    void collect() { submissions_.collect(); }
    // Discards pending work and waits for submitted work.
    void finish() noexcept;
    kpx_stream_stats stats() const;

    // ---- For the tensor cache, replays and order.hpp; the caller holds the device's mutex. ----

    // Throws, once, the error of a window that was refused when another stream's call submitted it.
    void report_refused();
    bool capturing() const { return capture_ != nullptr; }
    bool for_transfers() const { return kind_ == KPX_STREAM_TRANSFERS; }
    // Ends the capture. Throws KPX_INVALID if there is none.
    std::unique_ptr<Capture> take_capture();
    // The point of the pending window, which must not be empty.
    const std::shared_ptr<Point> &point();
    bool window_is_empty() const { return pending_.empty(); }
    // Calls record(point) with the point of the pending window, to tell tensors what was just appended. If that fails,
    // for which host memory must be lacking, the window is refused: nothing may run that tensors do not know of.
    template <typename Record> void note(Record record) {
        try {
            record(point());
        } catch (...) {
            refuse_unknown();
        }
    }
    // A new point after all submitted work.
    std::shared_ptr<Point> submitted_point();
    // The point of the pending window, or, if that is empty, one after all submitted work.
    std::shared_ptr<Point> last_point() { return pending_.empty() ? submitted_point() : point(); }
    Waits &waits() { return waits_; } // of the next submission
    // Appends a copy from staging memory to the buffer, or the other way.
    // wrapped: the data is the caller's memory, see copy_wrapped.
    void append_upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes,
                       bool wrapped = false) {
        pending_.upload(buffer, offset, data, bytes, wrapped);
    }
    void append_read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const std::shared_ptr<HostBlock> &block,
                     uint64_t block_offset, uint64_t bytes) {
        pending_.read(buffer, offset, block, block_offset, bytes);
    }
    // The pending window has work that nobody repeats if it is refused.
    void expect_no_repeat() { irreplaceable_ = true; }
    // Whether enough staging bytes are pending that they should be submitted.
    bool much_is_staged() const { return pending_.staged() >= kFlushStaged; }
    StreamCounters &counters() { return counters_; }
    Arenas &arenas() { return arenas_; } // of its regions; without the mutex, by the thread that ends a capture
    // Submits pending work, and then the region. If the driver refuses it, none of it counts as done; the error says
    // whether the pending work is lost.
    uint64_t submit_pending(std::shared_ptr<Region> region = nullptr, uint32_t times = 0);
    // Submits pending work, if there is any: it must not wait for what comes next.
    void submit_before();
    // Submits pending work, and then that recording of the region.
    uint64_t submit_recording(const std::shared_ptr<Recording> &recording, const std::shared_ptr<Region> &owner);
    // submit_pending on behalf of a call that names that stream, or none: an error is kept in the window's tensors.
    // Unless it is this stream's own call, its next one reports it; otherwise this returns whether work is lost.
    bool submit_for(const Stream *caller) noexcept;
    // Waits while too much work is under way; throws KPX_TIMEOUT. Without the mutex.
    void throttle(uint64_t timeout_ns = UINT64_MAX) { submissions_.throttle(timeout_ns); }
    Submissions::Oldest oldest() { return submissions_.oldest(); }
    uint64_t number() const { return number_; } // counts the device's streams, from 0
    bool launch_held() { return submissions_.launch_held(); }
    bool finished() const { return finished_; }

  private:
    static constexpr uint64_t kFlushStaged = uint64_t(16) << 20;

    Stream(std::shared_ptr<Device> device, kpx_stream_kind kind);
    template <typename Call> void append(const Call &call);
    template <typename Call> void append_ready(const Call &call); // whose operands are ready
    // The caller holds the device's mutex in all of these.
    void record(Submission &work);
    void submit(Submission work);
    void refuse(const std::shared_ptr<Point> &point);
    [[noreturn]] void refuse_unknown(); // throws the exception being handled again
    void wait_for_all() noexcept;       // without the mutex

    std::shared_ptr<Device> device_;
    Queue &queue_;
    const uint64_t number_;
    const kpx_stream_kind kind_;
    std::shared_ptr<Timeline> timeline_;
    StreamCounters counters_;
    OpTimes times_;
    Submissions submissions_;
    Arenas arenas_;

    // Guarded by the device's mutex.
    bool finished_ = false; // nothing more may be appended
    PendingWork pending_;
    // Whether pending_ has ops or writes of parts. If it is refused, other uploads are made again, and reads report it
    // themselves.
    bool irreplaceable_ = false;
    std::shared_ptr<Point> point_;     // of pending_, unless it is empty
    std::optional<Error> unreported_;  // of a window that another stream's call submitted
    std::unique_ptr<Capture> capture_; // while a region is captured
    Waits waits_;
};

} // namespace kpx
