// The work that a stream has submitted, or that a gate holds back, with the
// resources that it uses.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "record/program.hpp"
#include "runtime/timeline.hpp"
#include "stream/waits.hpp"

namespace kpx {

class Device;
class OpTimes;
class Recording;
class Region;
struct Queue;

struct Submission {
    uint64_t value = 0;                   // of the timeline, when it is done
    uint64_t staged = 0;                  // bytes of staging memory
    Program program;                      // the window's work: keeps the memory alive
    std::shared_ptr<Recording> recording; // of it, if there was anything
    std::shared_ptr<Region> region;       // run after it
    uint32_t times = 0;
    kpx_timing timing = KPX_TIME_NOTHING; // of the recording, op by op
    std::vector<Wait> waits;              // keep the semaphores that the submission waits for
    uint64_t submitted_ns = 0;            // by the host's clock, if it is timed
    uint64_t launched_ns = 0;             // when the driver got it; guarded by the mutex of Submissions
};

class Submissions {
  public:
    Submissions(std::shared_ptr<Device> device, Queue &queue, std::shared_ptr<Timeline> timeline, OpTimes &times);

    // Submits the work to the driver, or holds it back if work that it waits for is held back. If it throws, the work
    // is discarded. The caller holds the device's mutex.
    void submit(Submission work);
    // Submits work held back that can run now; returns whether there was any. The caller holds the device's mutex.
    bool launch_held();

    // Frees the resources of finished work. May be called with the device's mutex held.
    void collect();
    // Waits while too much work is in flight; throws KPX_TIMEOUT. The device's mutex is not held.
    void throttle(uint64_t timeout_ns);
    // Frees everything; all work is done or will never run. On a device that hangs, what it may still use is kept.
    void drop();
    // The oldest work that the driver has and that was not collected.
    struct Oldest {
        uint64_t launched_ns = 0; // 0: there is none
        std::string what;
    };
    Oldest oldest();

  private:
    static constexpr size_t kMostInFlight = 32;
    static constexpr uint64_t kMostStaged = uint64_t(64) << 20;

    vk::Result launch(Submission &work);
    vk::Result launch_or_hold(Submission &work);
    void keep(); // forever
    static bool ready(const Submission &work);
    uint64_t in_the_way(); // value of the oldest submission that must be done first, or 0

    std::shared_ptr<Device> device_;
    Queue &queue_;
    std::shared_ptr<Timeline> timeline_;
    OpTimes &times_;
    std::vector<vk::CommandBuffer> commands_; // of one submission; kept for its memory
    std::deque<Submission *> held_;           // of in_flight_, in order; guarded by the device's mutex
    std::mutex mutex_; // guards in_flight_; no other mutex is taken and nothing is freed under it
    std::deque<Submission> in_flight_;
};

} // namespace kpx
