// Hazards: which dispatches must wait for earlier ones.
#include <unordered_map>

#include "record/program.hpp"

namespace kpx {

namespace {

// The ranges that dispatches touched since the last barrier.
class Touched {
  public:
    bool conflicts(const Use &use) const {
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

    void add(const Use &use) {
        const Range range{use.offset, use.offset + use.bytes, (use.access & KPX_WRITE) != 0};
        std::vector<Range> &list = ranges_[use.buffer.serial];
        for (const Range &old : list) { // many dispatches read the same weights
            if (old.start == range.start && old.end == range.end && old.written == range.written) {
                return;
            }
        }
        list.push_back(range);
    }

    void clear() {
        for (auto &entry : ranges_) {
            entry.second.clear();
        }
    }

  private:
    struct Range {
        uint64_t start, end;
        bool written;
    };
    std::unordered_map<uint64_t, std::vector<Range>> ranges_; // by the buffer's serial number
};

} // namespace

void Program::plan() {
    Touched touched;
    barriers_ = 0;
    for (Node &node : nodes_) {
        const Use *all = uses(node);
        node.barrier = false;
        for (uint32_t i = 0; i < node.layout.bindings && !node.barrier; i++) {
            node.barrier = touched.conflicts(all[i]);
        }
        if (node.barrier) {
            barriers_++;
            touched.clear();
        }
        for (uint32_t i = 0; i < node.layout.bindings; i++) {
            touched.add(all[i]);
        }
    }
}

} // namespace kpx
