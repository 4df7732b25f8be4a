// A point in the work of a stream. The tensor cache records writers and readers
// as points, and other streams wait for them.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "abi/guard.hpp"
#include "runtime/timeline.hpp"

namespace kpx {

class Stream;

// All work of one window shares a point, as do all replays of a region: a
// replay moves the region's point forward, for all tensors that hold it.
// Guarded by the device's mutex.
struct Point {
    std::shared_ptr<Timeline> timeline;
    uint64_t value = 0;                   // of the timeline when the work is done
    std::weak_ptr<Stream> stream;         // whose work it is
    bool pending = false;                 // in a window that is not submitted yet
    std::shared_ptr<const Error> refused; // why it never ran

    // Records why the work never ran. It does so even without host memory, because work that was not done must not
    // count as done.
    void refuse(Error why) noexcept;
    void refuse(std::shared_ptr<const Error> why) noexcept {
        refused = std::move(why);
        pending = false;
    }

    // Whether the host knows that the work is done.
    bool seen_done() const { return !pending && timeline->seen() >= value; }
};

// Made in advance.
inline const std::shared_ptr<const Error> kRefusedWithoutMemory =
    std::make_shared<const Error>(KPX_OUT_OF_MEMORY, kNoHostMemory);
inline const std::shared_ptr<const Error> kRefusedByClosing =
    std::make_shared<const Error>(KPX_INVALID, "the stream was closed before the work was started");

inline void Point::refuse(Error why) noexcept {
    try {
        refuse(std::make_shared<const Error>(std::move(why)));
    } catch (const std::bad_alloc &) {
        refuse(kRefusedWithoutMemory);
    }
}

} // namespace kpx
