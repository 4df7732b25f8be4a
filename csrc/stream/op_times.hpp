// The device time of a stream's ops.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "abi/kpx.h"
#include "record/recording.hpp"
#include "runtime/clock.hpp"

namespace kpx {

class Device;
struct Queue;
struct Submission;

kpx_span to_host(const DeviceClock &clock, const Recording::Span &span);

class OpTimes {
  public:
    explicit OpTimes(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    // Sets what is measured of work recorded from now on. Throws KPX_UNSUPPORTED if the queue does not support
    // timestamps.
    void set(const Queue &queue, kpx_timing timing);
    kpx_timing timing() const { return timing_; }
    // The work is done.
    void add(const Submission &work);
    std::vector<kpx_op_time> sums();
    // Moves out at most the n oldest dispatches and returns their number.
    uint64_t take_spans(kpx_op_span *out, uint64_t n);

  private:
    struct Sum {
        uint64_t calls = 0, dispatches = 0, device_ns = 0;
    };

    std::shared_ptr<Device> device_;
    std::atomic<kpx_timing> timing_{KPX_TIME_NOTHING};
    std::mutex mutex_; // guards the members below; no other mutex is taken under it
    std::map<std::string, Sum, std::less<>> sums_;
    std::deque<kpx_op_span> spans_; // by the device's clock
};

} // namespace kpx
