// A counter that any thread may read.
#pragma once

#include <atomic>
#include <cstdint>

namespace kpx {

// Only the holder of one mutex adds to it, which is cheaper than an atomic addition.
class Tally {
  public:
    void operator++(int) { n_.store(n_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
    operator uint64_t() const { return n_.load(std::memory_order_relaxed); }

  private:
    std::atomic<uint64_t> n_{0};
};

} // namespace kpx
