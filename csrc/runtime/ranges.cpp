#include "runtime/ranges.hpp"

#include <algorithm>

namespace kpx {

RangeAllocator::RangeAllocator(uint64_t size) : size_(size) {
    constexpr size_t kFew = 16;
    free_.reserve(kFew);
    free_.push_back({0, size});
}

uint64_t RangeAllocator::take(uint64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        if (it->bytes >= bytes && (best == free_.end() || it->bytes < best->bytes)) {
            best = it;
            if (it->bytes == bytes) {
                break;
            }
        }
    }
    if (best == free_.end()) {
        return kNone;
    }
    if (free_.capacity() < taken_ + 2) {
        const size_t at = size_t(best - free_.begin());
        free_.reserve(2 * (taken_ + 2));
        best = free_.begin() + ptrdiff_t(at);
    }
    taken_++;
    // Taken from the end, so that the rest keeps its start.
    best->bytes -= bytes;
    const uint64_t start = best->start + best->bytes;
    if (best->bytes == 0) {
        free_.erase(best);
    }
    return start;
}

void RangeAllocator::give_back(uint64_t start, uint64_t bytes) noexcept {
    taken_--;
    const auto after = std::lower_bound(free_.begin(), free_.end(), start,
                                        [](const Range &range, uint64_t at) { return range.start < at; });
    const bool joins_after = after != free_.end() && start + bytes == after->start;
    const bool joins_before = after != free_.begin() && std::prev(after)->start + std::prev(after)->bytes == start;
    if (joins_before) {
        std::prev(after)->bytes += bytes + (joins_after ? after->bytes : 0);
        if (joins_after) {
            free_.erase(after);
        }
    } else if (joins_after) {
        *after = {start, bytes + after->bytes};
    } else {
        free_.insert(after, {start, bytes});
    }
}

uint64_t RangeAllocator::largest() const {
    uint64_t most = 0;
    for (const Range &range : free_) {
        most = std::max(most, range.bytes);
    }
    return most;
}

} // namespace kpx
