// What a stream collects for a region: ops that are kept instead of run, and
// which tensors they use.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/tensor.hpp"
#include "record/window.hpp"

namespace kpx {

// What a region does with a tensor of the caller.
struct RegionUse {
    std::shared_ptr<Tensor> tensor;
    bool needs;  // it reads content from before the replay
    bool writes; // it writes at least part of it
};

class Capture {
  public:
    explicit Capture(Device &device) : window(device, true) {}
    void note(const std::shared_ptr<Tensor> &tensor, bool needs, bool writes) {
        const auto [at, fresh] = index_.emplace(tensor.get(), uses_.size());
        if (fresh) {
            uses_.push_back({tensor, needs, writes});
        } else {
            uses_[at->second].writes |= writes;
        }
    }
    // Releases all tensors and returns the caller's. Those whose handles are gone and that have no content are the
    // region's own.
    std::vector<RegionUse> take_uses() {
        std::vector<RegionUse> open;
        for (RegionUse &use : uses_) {
            if (!use.tensor->closed || use.tensor->host_fresh || use.tensor->device_fresh) {
                open.push_back(std::move(use));
            }
        }
        uses_.clear();
        index_.clear();
        return open;
    }

    Window window;

  private:
    std::vector<RegionUse> uses_;
    std::unordered_map<const Tensor *, size_t> index_;
};

} // namespace kpx
