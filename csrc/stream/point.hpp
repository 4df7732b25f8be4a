// A point in the work of a stream: what the tensor cache remembers of writers
// and readers, and what other streams wait for.
#pragma once

#include <cstdint>
#include <memory>

#include "abi/error.hpp"
#include "runtime/timeline.hpp"

namespace kpx {

class Stream;

// All the work of one window shares a point, as do all replays of a region: a
// replay moves the region's point forward, and with it whatever the point is
// remembered by. Guarded by the device's mutex.
struct Point {
    std::shared_ptr<Timeline> timeline;
    uint64_t value = 0;             // of the timeline, once the work is done
    std::weak_ptr<Stream> stream;   // that has it
    bool pending = false;           // in a window that was not submitted yet
    std::unique_ptr<Error> refused; // why it never ran

    // Whether the host has seen that the work is done.
    bool seen_done() const { return !pending && timeline->seen() >= value; }
};

} // namespace kpx
