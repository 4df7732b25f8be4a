// The device's clock and the host's, side by side.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace kpx {

// Nanoseconds of the host's steady clock.
inline uint64_t host_clock_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Converts times of the device's clock to the host's. The offset of the two
// clocks is unknown, but work cannot start before it is submitted, and starts
// soon after that if the device is idle. So the offset is the greatest
// difference seen between submission and start, to within some microseconds.
class DeviceClock {
  public:
    // Records that work submitted at this host time started at that device time.
    void observe(uint64_t submitted, uint64_t started) {
        const int64_t seen = int64_t(submitted - started);
        int64_t known = offset_;
        while (seen > known && !offset_.compare_exchange_weak(known, seen)) {
        }
    }
    uint64_t to_host(uint64_t device_ns) const { return device_ns + uint64_t(offset_.load()); }

  private:
    std::atomic<int64_t> offset_{INT64_MIN};
};

} // namespace kpx
