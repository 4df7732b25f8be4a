#include "graph/overlap.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "record/hazards.hpp"
#include "runtime/device.hpp"
#include "runtime/kernels.hpp"

namespace kpx {

namespace {

// If dispatches that overlap read less than kShortBytes for each compute unit, on average, at most kShortTogether of
// them run between two barriers; measured with four models on an H100 (docs/performance/overlap.md).
constexpr uint64_t kShortBytes = 24 << 10;
constexpr uint32_t kShortTogether = 3;

class Overlap {
  public:
    Overlap(Device &device, Program &program, const Graph &graph)
        : device_(device), program_(program), graph_(graph), bits_(program.nodes().size()) {
        find_writers();
    }

    // A kernel awaits all that it can, even after a barrier: several forms of it in turn would not stay in the
    // instruction caches.
    void decide() {
        for (uint32_t i = 0; i < bits_.size(); i++) {
            await_results(i);
        }
        if (!are_short()) {
            return;
        }
        Hazards hazards;
        uint32_t together = 0;
        for (Node &node : program_.all_nodes()) {
            node.apart = together == kShortTogether && program_.awaits(node);
            const bool barrier = hazards.add(program_.uses(node), node.layout.bindings, node.apart);
            together = barrier || !program_.awaits(node) ? 1 : together + 1;
        }
    }

    void apply() {
        for (uint32_t i = 0; i < bits_.size(); i++) {
            Node &node = program_.all_nodes()[i];
            if (bits_[i] != 0) {
                SpecConstants constants = *node.constants;
                constants.values[constants.count - 1] = bits_[i];
                node.constants = std::make_shared<const SpecConstants>(constants);
                node.pipeline = {};
            }
        }
    }

  private:
    struct Writer {
        uint32_t node, binding; // one that others may wait for, if there is one
        bool alone;             // no other dispatch writes the tensor
    };

    Use &use(uint32_t node, uint32_t binding) {
        return program_.all_uses()[program_.nodes()[node].first_use + binding];
    }

    void find_writers() {
        for (uint32_t i = 0; i < bits_.size(); i++) {
            for (uint32_t k = 0; k < program_.nodes()[i].layout.bindings; k++) {
                const Use &written = use(i, k);
                if (!(written.access & KPX_WRITE)) {
                    continue;
                }
                Writer &writer = writers_.emplace(written.storage, Writer{i, k, true}).first->second;
                writer.alone = writer.alone && writer.node == i;
                if (writer.node == i && written.overlaps) {
                    writer.binding = k;
                }
            }
        }
    }

    // The dispatch that a use may wait for, or null.
    const Writer *awaitable(const Use &read) {
        const auto found = writers_.find(read.storage);
        if (!read.overlaps || read.access != KPX_READ || found == writers_.end() || !found->second.alone) {
            return nullptr;
        }
        const Writer &writer = found->second;
        const Use &written = use(writer.node, writer.binding);
        const bool is_own =
            read.storage->closed() && read.storage->mapped() == nullptr && graph_.starts_written(*read.storage);
        const bool is_same = written.offset == read.offset && written.bytes == read.bytes;
        return is_own && is_same && written.overlaps ? &writer : nullptr;
    }

    void await_results(uint32_t i) {
        for (uint32_t k = 0; k < program_.nodes()[i].layout.bindings; k++) {
            if (const Writer *writer = awaitable(use(i, k))) {
                use(i, k).awaited = true;
                bits_[i] |= 1u << k;
                use(writer->node, writer->binding).awaited = true;
                bits_[writer->node] |= 1u << writer->binding;
            }
        }
    }

    // Whether the dispatches that overlap read little.
    bool are_short() {
        uint64_t bytes = 0, dispatches = 0;
        for (uint32_t i = 0; i < bits_.size(); i++) {
            if (bits_[i] == 0) {
                continue;
            }
            // A tensor may be bound several times, in place of absent ones, but counts once. One that the dispatch
            // also writes, such as a cache of keys, does not count: only the device knows which part of it is read.
            std::unordered_set<const Buffer *> seen;
            const Use *uses = program_.uses(program_.nodes()[i]);
            const uint32_t n = program_.nodes()[i].layout.bindings;
            for (const Use *one = uses; one < uses + n; one++) {
                if (one->access & KPX_WRITE) {
                    seen.insert(one->storage);
                }
            }
            for (const Use *one = uses; one < uses + n; one++) {
                bytes += seen.insert(one->storage).second ? one->bytes : 0;
            }
            dispatches++;
        }
        return bytes < dispatches * kShortBytes * std::max(1u, device_.traits().compute_units);
    }

    Device &device_;
    Program &program_;
    const Graph &graph_;
    std::unordered_map<const Buffer *, Writer> writers_;
    std::vector<uint32_t> bits_; // of the bindings of each dispatch that are awaited
};

} // namespace

void overlap_dispatches(Device &device, Program &program, const Graph &graph) {
    for (Use &use : program.all_uses()) { // some may have been placed since their use was recorded
        use.resolve();
    }
    Overlap overlap(device, program, graph);
    overlap.decide();
    overlap.apply();
}

} // namespace kpx
