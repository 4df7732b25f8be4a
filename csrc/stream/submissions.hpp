// What a stream has handed to the driver, or would have but for a gate, and
// what must live until that is done.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "record/program.hpp"
#include "runtime/timeline.hpp"

namespace kpx {

class Device;
class Gate;
class OpTimes;
class Recording;
class Region;
struct Queue;

// What a submission starts after: a value of another stream, or a gate.
struct Wait {
    std::shared_ptr<Timeline> timeline;
    uint64_t value;
    std::shared_ptr<Gate> gate; // instead
};

struct Submission {
    uint64_t value = 0;                   // of the timeline, when it is done
    uint64_t staged = 0;                  // bytes of staging memory
    Program program;                      // what was pending: keeps the memory
    std::shared_ptr<Recording> recording; // of it, if there was anything
    std::shared_ptr<Region> region;       // run after it
    uint32_t times = 0;
    kpx_timing timing = KPX_TIME_NOTHING; // of the recording, op by op
    std::vector<Wait> waits;              // keep the semaphores that the submission waits on
    uint64_t submitted_ns = 0;            // by the host's clock, if it is timed
};

class Submissions {
  public:
    Submissions(std::shared_ptr<Device> device, Queue &queue, std::shared_ptr<Timeline> timeline, OpTimes &times);

    // Hands the work to the driver, or keeps it if what it waits for is kept. Throws an Error: then it is gone. The
    // caller holds the device's mutex.
    void submit(Submission work);
    // Hands over what was kept and can run; whether there was any. The caller holds the device's mutex.
    bool launch_held();

    // Frees what finished work holds. May be called with the device's mutex held.
    void collect();
    // Waits while more is under way than is good. The device's mutex is not held.
    void throttle();
    // All work is done, or never will be: frees everything.
    void drop();

  private:
    static constexpr size_t kMostInFlight = 32;
    static constexpr uint64_t kMostStaged = uint64_t(64) << 20;

    vk::Result launch(const Submission &work);
    vk::Result launch_or_hold(const Submission &work);
    static bool ready(const Submission &work);
    uint64_t in_the_way(); // value of the oldest submission that must be done first, or 0

    std::shared_ptr<Device> device_;
    Queue &queue_;
    std::shared_ptr<Timeline> timeline_;
    OpTimes &times_;
    std::vector<vk::CommandBuffer> commands_; // of one submission; kept for its memory
    std::deque<const Submission *> held_;     // of in_flight_, in order; guarded by the device's mutex
    std::mutex mutex_;                        // guards in_flight_; no other is taken under it, and nothing is freed
    std::deque<Submission> in_flight_;
};

} // namespace kpx
