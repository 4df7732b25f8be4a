#include "graph/arenas.hpp"

#include <algorithm>

namespace kpx {

std::shared_ptr<Arena> Arenas::take(Memory &memory, uint64_t bytes, const std::vector<std::shared_ptr<Arena>> &taken) {
    all_.erase(std::remove_if(all_.begin(), all_.end(), [](const auto &arena) { return arena.expired(); }), all_.end());
    std::shared_ptr<Arena> best;
    for (const std::weak_ptr<Arena> &weak : all_) {
        const std::shared_ptr<Arena> arena = weak.lock();
        if (arena && arena->bytes >= bytes && (!best || arena->bytes < best->bytes) &&
            std::find(taken.begin(), taken.end(), arena) == taken.end()) {
            best = arena;
        }
    }
    if (!best) {
        best = std::make_shared<Arena>(Arena{memory.allocate(bytes), bytes, nullptr, 0});
        best->buffer->close(); // no caller has it
        all_.push_back(best);
    }
    return best;
}

} // namespace kpx
