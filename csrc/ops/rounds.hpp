// How many rounds loops may have on CPU drivers.
//
// Mesa's CPU driver ends the loops of a thread after 65,535 rounds of all of them together, nested ones included, and
// every later loop after its first round. It reports no error: what these loops should have added is missing from the
// results. So a lowering counts the rounds of every loop that grows with a size, and takes another kernel, another
// launch or the CPU if they are too many. A loop has one round more than its body runs, in which it ends. Drivers
// unroll some loops of a few rounds; these may be counted nevertheless.
#pragma once

#include "ops/op.hpp"

namespace kpx {

constexpr int64_t kMostRounds = 60000; // leaves some for loops that do not grow, which lowerings do not count

inline bool too_many_rounds(const DeviceTraits &device, int64_t rounds) {
    return device.is_cpu && rounds > kMostRounds;
}

inline void check_rounds(const DeviceTraits &device, int64_t rounds) {
    if (too_many_rounds(device, rounds)) {
        unsupported("loops of {} rounds, of which CPU drivers may leave some out", rounds);
    }
}

} // namespace kpx
