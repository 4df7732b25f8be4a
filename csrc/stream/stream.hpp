// A stream: work in order, appended to a window, recorded and submitted when
// flushed. A timeline value per submission tells what is done.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/tensor.hpp"
#include "ops/op.hpp"
#include "record/recording_cache.hpp"
#include "record/transfer.hpp"
#include "record/window.hpp"
#include "runtime/tally.hpp"
#include "stream/gate.hpp"
#include "stream/op_times.hpp"
#include "stream/point.hpp"
#include "stream/submissions.hpp"
#include "stream/upload_staging.hpp"

namespace kpx {

class Algorithm;
class Capture;
class Region;

// A lock of the device's mutex; functions that take it may release it while they wait.
using Lock = std::unique_lock<std::mutex>;

class Stream : public std::enable_shared_from_this<Stream> {
  public:
    static std::shared_ptr<Stream> create(std::shared_ptr<Device> device, kpx_stream_kind kind);
    ~Stream();
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    const std::shared_ptr<Device> &device() const { return device_; }
    const std::shared_ptr<Timeline> &timeline() const { return timeline_; }

    // ---- Calls of the C ABI. Nothing stays appended when they throw ----
    void op(int32_t op, const kpx_array *arrays, uint32_t n, const void *params, uint32_t size);
    void dispatch(const std::shared_ptr<Algorithm> &algorithm, const kpx_array *arrays, uint32_t n, Grid groups,
                  const void *push, uint32_t push_bytes);
    // Work appended from now on starts after value of the other stream; pending work is submitted first, so that it
    // does not wait.
    void depend(const Stream &other, uint64_t value);
    // Work appended from now on starts after the gate is opened.
    std::shared_ptr<Gate> hold();
    // Between these, op() and dispatch() append to a region instead.
    void begin_capture();
    std::shared_ptr<Region> end_capture();
    void abort_capture() noexcept;
    // Submits pending work and then the region, times times in a row, in one submission.
    uint64_t replay(const std::shared_ptr<Region> &region, uint32_t times, uint64_t timeout_ns);
    // Replays the region once with timestamps, for Region::times().
    uint64_t profile(const std::shared_ptr<Region> &region, Recording::Timed timed);
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

    // ---- For the tensor cache; the caller holds the device's mutex. ----

    // Throws, once, the error of a window that was refused when another stream's call submitted it.
    void report_refused();
    bool capturing() const { return capture_ != nullptr; }
    // The point of the pending window, which must not be empty.
    const std::shared_ptr<Point> &point();
    // The same, or, if the window is empty, a point after all submitted work.
    std::shared_ptr<Point> last_point();
    // Work appended from now on comes after the point. False if the point's window was refused: then the caller checks
    // the tensor again.
    bool follow(const std::shared_ptr<Point> &point);
    // Appends a copy from staging memory to the buffer, or the other way.
    // wrapped: the data is the caller's memory, see copy_wrapped.
    void append_upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes,
                       bool wrapped = false);
    void append_read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const std::shared_ptr<HostBlock> &block,
                     uint64_t block_offset, uint64_t bytes);
    // Whether enough staging bytes are pending that they should be submitted.
    bool much_is_staged() const { return uploads_.pending() >= kFlushStaged; }
    void count_upload(uint64_t bytes);
    // Submits pending work, and then the region. If the driver refuses it, none of it counts as done.
    uint64_t submit_pending(std::shared_ptr<Region> region = nullptr, uint32_t times = 0);
    // The same, on behalf of a call that names that stream, or none: an error is kept in the window's tensors. Unless
    // it is this stream's own call, its next one reports it.
    void submit_for(const Stream *caller) noexcept;
    // Waits while too much work is under way; throws KPX_TIMEOUT. Without the mutex.
    void throttle(uint64_t timeout_ns = UINT64_MAX) { submissions_.throttle(timeout_ns); }
    Submissions::Oldest oldest() { return submissions_.oldest(); }
    uint64_t number() const { return number_; } // counts the device's streams, from 0
    bool launch_held() { return submissions_.launch_held(); }
    bool finished() const { return finished_; }

  private:
    static constexpr uint64_t kFlushStaged = uint64_t(16) << 20;

    struct Counters {
        Tally ops, repeated_ops;
        std::atomic<uint64_t> dispatches{0}, barriers{0}, submits{0}, descriptor_writes{0}, commands{0}, uploads{0},
            upload_bytes{0}, waits{0}, record_ns{0}, submit_ns{0}, replays{0};
    };

    Stream(std::shared_ptr<Device> device, kpx_stream_kind kind);
    // The caller holds the device's mutex in all of these.
    template <typename Fill, typename Lower>
    void append(Fill fill, const kpx_array *arrays, uint32_t n, Lower lower, const CallWords *call = nullptr);
    bool repeat(const RawCall &call);
    void note_uses(const kpx_array *arrays, uint32_t n);
    void note_captured_uses(const kpx_array *arrays, uint32_t n);
    void record(Submission &work);
    void submit(Submission work);
    void refuse(const std::shared_ptr<Point> &point);
    void wait_for(const std::shared_ptr<Timeline> &timeline, uint64_t value);
    void check_replay(const Region &region) const;
    void check_changed(Lock &lock, Region &region);
    void prepare(Lock &lock, Region &region);
    void follow_last(const Region &region);
    void prepare_first(Lock &lock, Region &region);
    void set_last(Region &region);
    void note_replay(Region &region);
    uint64_t run(const std::shared_ptr<Recording> &recording, const std::shared_ptr<Region> &owner);

    std::shared_ptr<Device> device_;
    Queue &queue_;
    const uint64_t number_;
    const kpx_stream_kind kind_;
    std::shared_ptr<Timeline> timeline_;
    mutable Counters counters_;
    OpTimes times_;
    Submissions submissions_;

    // Guarded by the device's mutex.
    bool finished_ = false; // nothing more may be appended
    Window window_;
    std::shared_ptr<Point> point_;      // of window_, unless it is empty
    std::unique_ptr<Error> unreported_; // of a window that another stream's call submitted
    RecordingCache recordings_;         // of windows
    CallWords call_;                    // being appended
    std::unique_ptr<Capture> capture_;  // while a region is captured
    std::vector<Wait> waits_;           // of the next submission
    UploadStaging uploads_;             // in window_
    // The latest value of each other stream that all work from now on follows.
    std::unordered_map<std::shared_ptr<Timeline>, uint64_t> followed_;
    size_t most_followed_ = 64; // size at which closed streams are removed
};

} // namespace kpx
