// Which tensors that regions use have changed, in order, as far back as it
// remembers: a region then checks these before a replay instead of all of its own.
#pragma once

#include <array>
#include <cstdint>

namespace kpx {

class Tensor;

class ChangeLog {
  public:
    // The number of changes so far, plus 1.
    uint64_t state() const { return state_; }
    void add(const Tensor *tensor) { recent_[state_++ % kMost] = tensor; }
    // Any tensor may have changed.
    void add_all() { state_ += kMost + 1; }
    // Calls f(tensor) for each that has changed since the log had that state, some more than once; the tensor may be
    // gone. False if it does not know them all: then it calls nothing.
    template <typename F> bool since(uint64_t state, F f) const {
        if (state == 0 || state_ - state > kMost) {
            return false;
        }
        for (; state < state_; state++) {
            f(recent_[state % kMost]);
        }
        return true;
    }

    static constexpr uint64_t kMost = 64;

  private:
    uint64_t state_ = 1;
    std::array<const Tensor *, kMost> recent_{};
};

} // namespace kpx
