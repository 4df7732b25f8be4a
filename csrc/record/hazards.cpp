#include "record/hazards.hpp"

#include <algorithm>

namespace kpx {

bool Hazards::add(const Use *uses, uint32_t n, bool apart) {
    const bool barrier =
        apart || std::any_of(uses, uses + n, [this](const Use &use) { return !use.awaited && conflicts(use); });
    if (barrier) {
        clear();
    }
    std::for_each(uses, uses + n, [this](const Use &use) { add(use); });
    return barrier;
}

bool Hazards::conflicts(const Use &use) const {
    auto it = ranges_.find(use.buffer.serial);
    if (it == ranges_.end()) {
        return false;
    }
    for (const Range &range : it->second) {
        const bool overlap = use.offset < range.end && range.start < use.offset + use.bytes;
        if (overlap && (range.written || (use.access & KPX_WRITE))) {
            return true;
        }
    }
    return false;
}

void Hazards::add(const Use &use) {
    const Range range{use.offset, use.offset + use.bytes, (use.access & KPX_WRITE) != 0};
    std::vector<Range> &list = ranges_[use.buffer.serial];
    for (const Range &old : list) { // many dispatches read the same weights
        if (old.start == range.start && old.end == range.end && old.written == range.written) {
            return;
        }
    }
    list.push_back(range);
}

void Hazards::clear() {
    for (auto &entry : ranges_) {
        entry.second.clear();
    }
}

} // namespace kpx
