#include "record/capture.hpp"

#include <algorithm>

#include "cache/cache.hpp"
#include "runtime/memory.hpp"

namespace kpx {

Capture::~Capture() {
    for (const RegionUse &use : uses_) {
        use.tensor->captures--;
    }
}

void Capture::make_room(const kpx_array *arrays, uint32_t n) {
    if (uses_.capacity() - uses_.size() < n) {
        uses_.reserve(std::max<size_t>(2 * uses_.capacity(), uses_.size() + n));
    }
    for (uint32_t i = 0; i < n; i++) {
        if (arrays[i].tensor != nullptr) {
            index_.emplace(tensor_of(arrays[i].tensor).get(), kUnused);
        }
    }
}

// One call may bind a tensor twice: reads of the old content are recorded before writes.
void Capture::note_uses(const kpx_array *arrays, uint32_t n) noexcept {
    for (const bool needed : {true, false}) {
        for (uint32_t i = 0; i < n; i++) {
            if (arrays[i].tensor == nullptr) {
                continue;
            }
            const Access access = access_of(arrays[i]);
            if (access.needs == needed) {
                note(tensor_of(arrays[i].tensor), access.needs, access.writes);
            }
        }
    }
}

void Capture::note(const std::shared_ptr<Tensor> &tensor, bool needs, bool writes) {
    size_t &at = index_.find(tensor.get())->second;
    if (at == kUnused) {
        at = uses_.size();
        uses_.push_back({tensor, needs, writes});
        tensor->captures++;
    } else {
        uses_[at].writes |= writes;
    }
}

std::vector<RegionUse> Capture::release_own() {
    const auto is_own = [](const RegionUse &use) {
        Tensor &t = *use.tensor;
        // Wrapped memory has content even if its upload was refused: a replay must report that it is lost.
        const bool own =
            t.closed && !t.host_fresh && !t.device_fresh && t.regions == 0 && !t.read_only && t.captures == 1;
        t.captures -= own;
        return own;
    };
    uses_.erase(std::remove_if(uses_.begin(), uses_.end(), is_own), uses_.end());
    index_.clear();
    return uses_;
}

} // namespace kpx
