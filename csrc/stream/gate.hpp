// What holds a stream's work back until the host says so: an event of another
// device. The driver never sees it. Work behind a closed gate, and work that
// depends on such work, is kept here and not in a queue, where it would keep
// other streams from running: streams share queues.
#pragma once

#include <memory>

namespace kpx {

class Device;

class Gate {
  public:
    explicit Gate(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    // Hands to the driver what was held back and can run now.
    void open();
    bool is_open() const { return open_; } // the caller holds the device's mutex

  private:
    const std::shared_ptr<Device> device_;
    bool open_ = false; // guarded by the device's mutex
};

} // namespace kpx
