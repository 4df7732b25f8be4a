// Holds a stream's work back until the host opens it, for an event of another
// device. Work behind a closed gate, and work that depends on it, is kept by
// the shim and not submitted: streams share the driver's queues, where it would
// block other streams.
#pragma once

#include <memory>

namespace kpx {

class Device;

class Gate {
  public:
    explicit Gate(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    // Submits the work that was held back and can run now. The device is lost if that fails.
    void open() noexcept;
    bool is_open() const { return open_; } // the caller holds the device's mutex

  private:
    const std::shared_ptr<Device> device_;
    bool open_ = false; // guarded by the device's mutex
};

} // namespace kpx
