#include "record/capture.hpp"

#include "cache/cache.hpp"

namespace kpx {

// One call may bind a tensor twice: reads of the old content are recorded before writes.
void Capture::note_uses(const kpx_array *arrays, uint32_t n) {
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
    const auto [at, fresh] = index_.emplace(tensor.get(), uses_.size());
    if (fresh) {
        uses_.push_back({tensor, needs, writes});
    } else {
        uses_[at->second].writes |= writes;
    }
}

std::vector<RegionUse> Capture::take_uses() {
    std::vector<RegionUse> open;
    for (RegionUse &use : uses_) {
        if (!use.tensor->closed || use.tensor->host_fresh || use.tensor->device_fresh || use.tensor->regions > 0) {
            open.push_back(std::move(use));
        }
    }
    uses_.clear();
    index_.clear();
    return open;
}

} // namespace kpx
