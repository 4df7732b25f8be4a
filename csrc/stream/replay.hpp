// Captured regions on streams.
#pragma once

#include <cstdint>
#include <memory>

#include "record/region.hpp"
#include "stream/stream.hpp"

namespace kpx {

// Ends the stream's capture and makes the region.
std::shared_ptr<Region> end_capture(Stream &stream);

// Both submit the stream's pending work and then the region, and return the value that is reached when it is done.
// Throw an Error; nothing of the region runs then.
// times times in a row, in one submission. Throws KPX_TIMEOUT if that takes longer to find room.
uint64_t replay(Stream &stream, const std::shared_ptr<Region> &region, uint32_t times, uint64_t timeout_ns);
// Once, with timestamps, for Region::times().
uint64_t profile(Stream &stream, const std::shared_ptr<Region> &region, Recording::Timed timed);

} // namespace kpx
