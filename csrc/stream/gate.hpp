// What holds a stream's work back until the host says so: an event of another
// device. The driver never sees it. Work behind a closed gate, and work that
// depends on such work, is kept here and not in a queue, where it would keep
// other streams from running: streams share queues.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

namespace kpx {

class Device;

class Gate {
  public:
    explicit Gate(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    // Hands to the driver what was held back and can run now.
    void open();
    bool is_open() const { return open_; } // the caller holds Held::mutex

  private:
    const std::shared_ptr<Device> device_;
    bool open_ = false; // guarded by Held::mutex
};

// What a device holds back, over all its streams.
struct Held {
    std::mutex mutex; // guards gates, and which submissions of streams are held; taken after Stream's own
    std::atomic<uint64_t> submissions{0}; // held back
};

} // namespace kpx
