// Detects that a device hangs: the driver has work, but no work of any stream has
// finished for longer than a limit.
#pragma once

#include <cstdint>
#include <mutex>

namespace kpx {

class Device;

class Watchdog {
  public:
    // limit_ns 0: it never reports a hang.
    Watchdog(Device &device, uint64_t limit_ns) : device_(device), limit_(limit_ns) {}
    // Called often, by every call that waits. Marks the device as lost if it hangs.
    void look();
    uint64_t limit_ns() const { return limit_ == 0 ? UINT64_MAX : limit_; }

  private:
    Device &device_;
    const uint64_t limit_;
    std::mutex mutex_;    // guards what follows
    uint64_t looked_ = 0; // when
    uint64_t done_ = 0;   // submissions of all streams that were done then
    uint64_t since_ = 0;  // when that count was first seen
};

} // namespace kpx
