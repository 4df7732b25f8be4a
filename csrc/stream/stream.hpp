// A stream: work in order, appended to a window, recorded and submitted when
// flushed. A timeline value per submission tells what is done.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fusion/pass.hpp"
#include "ops/op.hpp"
#include "record/recording_cache.hpp"
#include "record/window.hpp"
#include "runtime/staging.hpp"
#include "runtime/timeline.hpp"
#include "stream/gate.hpp"
#include "stream/read.hpp"

namespace kpx {

class Algorithm;
class Recording;
class Region;
struct Queue;

class Stream {
  public:
    static std::shared_ptr<Stream> create(std::shared_ptr<Device> device);
    ~Stream();
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    const std::shared_ptr<Device> &device() const { return device_; }
    const std::shared_ptr<Timeline> &timeline() const { return timeline_; }

    // Append work. Nothing stays appended when they throw.
    void op(int32_t op, const kpx_array *arrays, uint32_t n, const void *params, uint32_t size);
    void dispatch(const std::shared_ptr<Algorithm> &algorithm, const kpx_array *arrays, uint32_t n, Grid groups,
                  const void *push, uint32_t push_bytes);
    void upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes);
    // Work appended from here on starts after value of the other timeline; what
    // is pending is submitted first, so that it need not wait.
    void depend(const Stream &other, uint64_t value);
    // Work appended from here on starts after the gate was opened.
    std::shared_ptr<Gate> hold();
    // Hands what is held back and can run to the driver; whether there was any.
    // The caller holds Held::mutex.
    bool launch_held();

    // Between these, op() and dispatch() append to a region instead.
    void begin_capture();
    std::shared_ptr<Region> end_capture();
    void abort_capture() noexcept;
    // Submits what is pending and then the region, times times in a row, at once.
    uint64_t replay(std::shared_ptr<Region> region, uint32_t times);

    // Replays the region once with timestamps and waits for it; csrc/record/profile.cpp. Gives when it ran, and in
    // spans, if it is given, when each of its n dispatches did.
    kpx_span profile(const std::shared_ptr<Region> &region, kpx_span *spans, uint64_t n);
    // From here on, what is appended and not captured is timed op by op, or no longer.
    void time_ops(kpx_timing timing);
    std::vector<kpx_op_time> op_times();
    uint64_t take_spans(kpx_op_span *out, uint64_t n);

    // Submits, waits, copies to data.
    void download(const std::shared_ptr<Buffer> &buffer, uint64_t offset, void *data, uint64_t bytes);
    // Appends a copy of the buffer's bytes, which the host may take once the stream
    // has reached the value that the next flush gives.
    std::unique_ptr<Read> read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, uint64_t bytes);
    // Submits what is pending and gives the value that is reached when it is done.
    uint64_t flush();
    void wait(uint64_t value, uint64_t timeout_ns);
    // Releases what finished work holds.
    void collect();
    // Drops what is pending and waits for what was submitted.
    void finish() noexcept;

    kpx_stream_stats stats() const;

  private:
    static constexpr size_t kMostInFlight = 32;                  // submissions
    static constexpr uint64_t kMostStaged = uint64_t(64) << 20;  // bytes of uploads in flight
    static constexpr uint64_t kFlushStaged = uint64_t(16) << 20; // pending uploads that are submitted

    struct Wait {
        std::shared_ptr<Timeline> timeline;
        uint64_t value;
        std::shared_ptr<Gate> gate; // instead
    };
    struct InFlight {
        uint64_t value;
        uint64_t staged;
        Program program;                      // what was pending: keeps the memory
        std::shared_ptr<Recording> recording; // of it, if there was anything
        std::shared_ptr<Region> region;       // run after it
        uint32_t times;
        kpx_timing timing;       // of the recording, op by op
        std::vector<Wait> waits; // keep the semaphores that the submission waits on
        uint64_t submitted_ns;   // by the host's clock, if it is timed
    };
    struct Counters {
        std::atomic<uint64_t> ops{0}, dispatches{0}, barriers{0}, submits{0}, descriptor_writes{0}, commands{0},
            uploads{0}, upload_bytes{0}, downloads{0}, download_bytes{0}, waits{0}, record_ns{0}, submit_ns{0},
            replays{0};
    };
    struct Staged {
        std::shared_ptr<HostBlock> block;
        uint64_t offset;
    };

    explicit Stream(std::shared_ptr<Device> device);
    // The caller holds mutex_.
    uint64_t submit_pending(std::shared_ptr<Region> region = nullptr, uint32_t times = 0);
    void submit(InFlight work, std::vector<Wait> waits);
    uint64_t submit_after_last(const std::shared_ptr<Region> &region, uint32_t times);
    void wait_for_last(const Region &region);
    void note_last(Region &region);
    void wait_for(const std::shared_ptr<Timeline> &timeline, uint64_t value);
    vk::Result launch(const InFlight &work, std::vector<vk::CommandBuffer> &commands);
    vk::Result launch_or_hold(const InFlight &work);
    static bool ready(const InFlight &work);
    void drop_held();
    uint64_t run(const std::shared_ptr<Recording> &recording, const std::shared_ptr<Region> &owner);
    void add_times(const InFlight &work);
    void record(InFlight &work);
    Window new_window() const { return Window(*device_, false); }
    Window &appended() { return capture_ ? *capture_ : window_; }
    void throttle();
    Staged stage(uint64_t bytes, uint64_t phase);
    void upload_part(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const uint8_t *data, uint64_t bytes);
    void append_read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const Staged &to, uint64_t bytes);
    uint64_t download_part(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const Staged &to, uint64_t bytes);
    void check_range(const Buffer &buffer, uint64_t offset, const void *data, uint64_t bytes) const;

    std::shared_ptr<Device> device_;
    Queue &queue_;
    const PassSet passes_;
    std::shared_ptr<Timeline> timeline_;
    mutable Counters counters_;

    std::mutex mutex_; // guards what is pending
    Window window_;
    RecordingCache recordings_;               // of windows
    std::unique_ptr<Window> capture_;         // while a region is captured
    std::vector<vk::CommandBuffer> commands_; // of one submission; kept for its memory
    std::vector<Wait> waits_;
    std::shared_ptr<HostBlock> upload_blocks_[2]; // being filled: small, large
    uint64_t staged_ = 0;                         // bytes of uploads in window_

    struct OpTime {
        uint64_t calls = 0, dispatches = 0, device_ns = 0;
    };
    std::atomic<kpx_timing> timing_{KPX_TIME_NOTHING};
    std::mutex times_mutex_; // guards what follows; no other is taken under it
    std::map<std::string, OpTime, std::less<>> op_times_;
    std::deque<kpx_op_span> spans_; // by the device's clock

    std::mutex flight_mutex_; // guards in_flight_; taken last, and nothing is freed under it
    std::deque<InFlight> in_flight_;
    std::deque<const InFlight *> held_; // of them, in order; guarded by Held::mutex
};

// Appends a dispatch that copies bytes; the offsets agree modulo 4.
struct TransferEnd {
    vk::Buffer buffer;
    uint64_t offset;
    std::shared_ptr<const void> owner;
    const Buffer *storage = nullptr; // what owner is, unless it is a staging block
};
void append_transfer(Device &device, Program &program, const TransferEnd &from, const TransferEnd &to, uint64_t bytes);

} // namespace kpx
