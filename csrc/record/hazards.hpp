// Which dispatches must wait for earlier ones.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "record/program.hpp"

namespace kpx {

// The ranges that dispatches have touched since the last barrier.
class Hazards {
  public:
    // Adds a dispatch. Returns whether it needs a barrier before it, since it touches a range that one of them wrote,
    // or writes one that one of them read: then its ranges are the first after the barrier. What it awaits by itself
    // needs none. apart: there is a barrier in any case.
    bool add(const Use *uses, uint32_t n, bool apart = false);

  private:
    struct Range {
        uint64_t start, end;
        bool written;
    };

    bool conflicts(const Use &use) const;
    void add(const Use &use);
    void clear(); // keeps the lists' memory

    std::unordered_map<uint64_t, std::vector<Range>> ranges_; // by the buffer's serial number
};

} // namespace kpx
