// What a stream's work waits for: points in other streams, and gates.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/timeline.hpp"

namespace kpx {

class Gate;

// A value of another stream, or a gate.
struct Wait {
    std::shared_ptr<Timeline> timeline;
    uint64_t value;
    std::shared_ptr<Gate> gate; // instead
};

class Waits {
  public:
    // The next submission waits for it.
    void add(const std::shared_ptr<Timeline> &timeline, uint64_t value);
    void add(std::shared_ptr<Gate> gate) { next_.push_back({nullptr, 0, std::move(gate)}); }
    // The same, unless an earlier submission does: remembers the latest value of each stream.
    void add_once(const std::shared_ptr<Timeline> &timeline, uint64_t value);
    // Whether add_once has added that value, or a later one.
    bool has(const std::shared_ptr<Timeline> &timeline, uint64_t value) const;

    const std::vector<Wait> &next() const { return next_; } // of the next submission
    void submitted() { next_.clear(); }
    void clear();

  private:
    static constexpr size_t kFew = 64;

    void forget_closed();

    std::vector<Wait> next_;
    std::unordered_map<std::shared_ptr<Timeline>, uint64_t> followed_;
    size_t most_followed_ = kFew; // size at which closed streams are removed
};

} // namespace kpx
