#include "stream/watchdog.hpp"

#include "abi/text.hpp"
#include "runtime/device.hpp"
#include "stream/stream.hpp"

namespace kpx {

// Streams share queues, so one stream's work may have to wait for another's: the
// device hangs only if no stream's work finishes.
void Watchdog::look() {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t now = host_clock_ns(); // not before what other threads have noted
    if (limit_ == 0 || now - looked_ < limit_ / 16 || device_.lost()) {
        return;
    }
    looked_ = now;
    uint64_t done = 0;
    uint64_t oldest = now;
    std::string what;
    for (const std::shared_ptr<Stream> &stream : device_.streams()) {
        done += stream->timeline()->completed();
        const Submissions::Oldest work = stream->oldest();
        if (work.launched_ns != 0 && work.launched_ns < oldest) {
            oldest = work.launched_ns;
            what = formatted("stream {}, {}", stream->number(), work.what);
        }
    }
    if (done != done_) {
        done_ = done;
        since_ = now;
    }
    const uint64_t stuck = now - std::max(since_, oldest);
    if (!what.empty() && stuck >= limit_) {
        device_.mark_hung(
            formatted("the device hangs: no work has ended for {:.1f} s; the oldest is {}", double(stuck) / 1e9, what));
    }
}

} // namespace kpx
