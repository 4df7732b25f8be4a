// Captured work, recorded once: what kpx_replay submits.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/memory_plan.hpp"
#include "record/capture.hpp"
#include "record/recording.hpp"
#include "record/window.hpp"
#include "runtime/device.hpp"
#include "stream/point.hpp"

namespace kpx {

class Region {
  public:
    // An operand of an op as it was recorded.
    struct Operand {
        uint32_t index; // among the op's operands; absent ones are left out
        int64_t tensor; // index in the memory plan; -1: no dispatch touches it
        kpx_access access;
        uint32_t dtype, rank;
        std::array<int64_t, KPX_MAX_RANK> shape, strides;
        int64_t offset; // elements from the start of its storage
    };
    // An op as it was recorded.
    struct Op {
        int32_t op;
        const char *pass;           // the pass that made it, or nullptr
        std::vector<int32_t> fused; // the ops that it replaced
        std::vector<Operand> operands;
        uint32_t dispatches;
    };

    // Runs the passes over the window, plans memory, records. Throws an Error.
    Region(std::shared_ptr<Device> device, const Queue &queue, Window window, const PassSet &passes, Arenas &arenas);
    ~Region();
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;

    const std::shared_ptr<Device> &device() const { return device_; }
    const Recording &recording() const { return *recording_; }
    // The same work with timestamps, recorded when first asked for. The caller holds profiling.
    std::mutex profiling;
    const std::shared_ptr<Recording> &timed(const Queue &queue, Recording::Timed timed);
    // Notes that such a recording was submitted and ends at that value. The caller holds profiling.
    void profiled(std::shared_ptr<Recording> recording, uint64_t submitted_ns, std::shared_ptr<Timeline> timeline,
                  uint64_t value);
    // When the last of them ran; spans, unless null, gets the times of its n dispatches. Throws KPX_INVALID if none was
    // submitted.
    kpx_span times(kpx_span *spans, uint64_t n);

    // ---- Guarded by the device's mutex ----
    // The caller's tensors that it uses.
    void use(std::vector<RegionUse> uses);
    const std::vector<RegionUse> &uses() const { return uses_; }
    // The last replay, or null. A replay on another stream must wait for it, since both use the region's memory.
    std::shared_ptr<Point> last;
    // Calls ready(use) for each tensor that has changed since it was ready for the stream of that timeline, until none
    // changes any more. If ready throws, the next call begins with all of them.
    template <typename Ready> void check_changed(const std::shared_ptr<Timeline> &timeline, Ready ready);
    // Makes `last` a new point, which no tensor remembers.
    void set_last(std::shared_ptr<Point> point);
    // Calls f(use) for each tensor that does not remember `last`.
    template <typename F> void each_unmarked(F f) const {
        std::for_each(unmarked_.begin(), unmarked_.end(), [&](uint32_t use) { f(uses_[use]); });
    }
    // Calls mark(use) for each tensor that does not remember `last`. It returns whether it does now.
    template <typename Mark> void mark(Mark mark);

    kpx_region_stats stats() const;
    uint64_t captured_ops() const { return appended_; } // before the passes
    const std::vector<Op> &ops() const { return ops_; }
    const Program &program() const { return program_; }
    const MemoryPlan &memory() const { return memory_; }

  private:
    void unmark(uint32_t use);
    void list_ops(const Graph &graph); // before memory is allocated, which forgets the buffers
    std::vector<Operand> operands_of(const OpNode &node) const;

    std::shared_ptr<Device> device_;
    std::vector<RegionUse> uses_;
    std::unordered_map<const Tensor *, uint32_t> index_; // of uses_
    std::vector<uint32_t> unmarked_;                     // of uses_: the tensors that do not remember `last`
    std::vector<bool> marked_;                           // the same, by number
    uint64_t seen_state_ = 0;                            // of Device::changes() when the tensors were ready; 0: never
    std::shared_ptr<Timeline> seen_by_;                  // of the stream that they were ready for
    uint64_t appended_ = 0;                              // number of ops before the passes
    std::vector<Op> ops_;
    MemoryPlan memory_;
    Program program_; // freed after its recording
    std::unique_ptr<Recording> recording_;
    // Guarded by profiling.
    std::shared_ptr<Recording> whole_, each_;
    struct {
        std::shared_ptr<Recording> recording;
        uint64_t submitted_ns = 0;
        std::shared_ptr<Timeline> timeline;
        uint64_t value = 0;
    } profiled_; // last
    std::atomic<uint64_t> record_ns_{0};
};

template <typename Ready> void Region::check_changed(const std::shared_ptr<Timeline> &timeline, Ready ready) {
    const ChangeLog &changes = device_->changes();
    while (seen_state_ != changes.state() || seen_by_ != timeline) {
        const uint64_t state = changes.state(), since = seen_by_ == timeline ? std::exchange(seen_state_, 0) : 0;
        std::array<uint32_t, ChangeLog::kMost> changed;
        size_t count = 0;
        const bool known = changes.since(since, [&](const Tensor *tensor) {
            const auto at = index_.find(tensor);
            if (at != index_.end()) {
                changed[count++] = at->second;
            }
        });
        for (uint32_t i = 0; i < (known ? count : uses_.size()); i++) {
            const uint32_t use = known ? changed[i] : i;
            unmark(use); // its points may change
            ready(uses_[use]);
        }
        seen_by_ = timeline;
        seen_state_ = state; // an upload is a change: then it is checked once more
    }
}

template <typename Mark> void Region::mark(Mark mark) {
    if (unmarked_.empty()) {
        return;
    }
    const auto done = [&](uint32_t use) { return marked_[use] = mark(uses_[use]); };
    unmarked_.erase(std::remove_if(unmarked_.begin(), unmarked_.end(), done), unmarked_.end());
    if (seen_state_ != 0) {
        seen_state_ = device_->changes().state(); // the changes are this region's own
    }
}

} // namespace kpx
