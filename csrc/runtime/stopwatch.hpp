// Measures the shim's host time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace kpx {

// Adds the nanoseconds of a scope to a counter.
class Stopwatch {
  public:
    explicit Stopwatch(std::atomic<uint64_t> &sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
    ~Stopwatch() {
        const auto passed = std::chrono::steady_clock::now() - start_;
        sum_ += uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
    }

  private:
    std::atomic<uint64_t> &sum_;
    std::chrono::steady_clock::time_point start_;
};

} // namespace kpx
