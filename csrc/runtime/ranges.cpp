#include "runtime/ranges.hpp"

#include <algorithm>

namespace kpx {

uint64_t RangeAllocator::take(uint64_t bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
        if (it->second >= bytes && (best == free_.end() || it->second < best->second)) {
            best = it;
        }
    }
    if (best == free_.end()) {
        return kNone;
    }
    // From its end, so that what is left keeps its place in the map.
    best->second -= bytes;
    const uint64_t start = best->first + best->second;
    if (best->second == 0) {
        free_.erase(best);
    }
    return start;
}

void RangeAllocator::give_back(uint64_t start, uint64_t bytes) {
    auto after = free_.lower_bound(start);
    if (after != free_.end() && start + bytes == after->first) {
        bytes += after->second;
        after = free_.erase(after);
    }
    if (after != free_.begin()) {
        auto before = std::prev(after);
        if (before->first + before->second == start) {
            before->second += bytes;
            return;
        }
    }
    free_[start] = bytes;
}

uint64_t RangeAllocator::largest() const {
    uint64_t most = 0;
    for (const auto &range : free_) {
        most = std::max(most, range.second);
    }
    return most;
}

} // namespace kpx
