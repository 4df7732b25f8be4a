// Work as dispatches, in order, with the ranges that each reads and writes.
// Lowerings append to it, plan() decides the barriers, Recording records it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <vulkan/vulkan.hpp>

#include "ops/op.hpp"
#include "runtime/kernels.hpp"

namespace kpx {

// A range of a Vulkan buffer that a node binds.
struct Use {
    Numbered<vk::Buffer> buffer;
    uint64_t offset; // bytes, aligned as the device requires
    uint64_t bytes;
    kpx_access access;
    std::shared_ptr<const void> owner; // keeps the memory
    Buffer *storage = nullptr;         // the owner as a Buffer, unless it is a staging block
    bool overlaps = false;             // as in Binding
    bool awaited = false; // set by overlap.hpp: read, it may not be there yet; written, others may already wait for it
    // Names the memory of the storage; called once that was placed.
    void resolve();
};

// One dispatch. Its uses and push constants are slices of the program's lists.
struct Node {
    Numbered<vk::Pipeline> pipeline; // null: build_pipelines() makes it, of the variant with these constants
    Layout layout;
    Variant *variant;                  // of the pipeline
    const char *kernel;                // name, static
    std::shared_ptr<const void> owner; // of the pipeline, unless the device owns it
    uint32_t first_use = 0;
    uint32_t first_push = 0, push_bytes = 0;
    int32_t op = -1;   // the op that it is part of; OpNode::kOpaque: none
    uint32_t call = 0; // number of the op call in the program
    Grid grid;
    std::shared_ptr<const SpecConstants> constants; // null unless the program is a region's
    bool apart = false;                             // has a barrier before it in any case
    bool barrier = false;                           // set by plan(): wait for what ran before
};

class Program {
  public:
    // A position to cut the program back to when an op fails half-way.
    struct Mark {
        size_t nodes, uses, push;
    };
    Mark mark() const { return {nodes_.size(), uses_.size(), push_.size()}; }
    void cut(const Mark &mark);

    // Starts a call of that op; work appended from now on belongs to it.
    void begin_call(int32_t op);
    // Appends a use of the next dispatch, one per binding, and then the dispatch.
    void use(Use use);
    // Appends all of them, given as a kernel's BindingsOf<Use> (gen_kernels.hpp).
    template <typename Bindings> void use_all(const Bindings &bindings) {
        const auto *all = reinterpret_cast<const Use *>(&bindings);
        std::for_each(all, all + count_of<Bindings>(), [this](const Use &one) { use(one); });
    }
    // How many bindings those are.
    template <typename Bindings> static constexpr uint32_t count_of() {
        static_assert(sizeof(Bindings) % sizeof(Use) == 0);
        return sizeof(Bindings) / sizeof(Use);
    }
    void dispatch(const Pipeline &pipeline, const char *kernel, const void *push, uint32_t push_bytes, Grid grid,
                  std::shared_ptr<const void> owner = nullptr,
                  std::shared_ptr<const SpecConstants> constants = nullptr);
    // Appends the dispatches [first, last) of another program: one call.
    void append(const Program &other, size_t first, size_t last);
    // Keeps memory that the dispatches use, beside the owners of their uses.
    void keep(std::shared_ptr<const void> owner) { kept_.push_back(std::move(owner)); }
    // Makes room for that many more, so that keep() takes no memory.
    void make_room_to_keep(size_t owners) {
        if (kept_.capacity() - kept_.size() < owners) {
            kept_.reserve(std::max(2 * kept_.capacity(), kept_.size() + owners));
        }
    }
    // A copy that keeps no memory alive.
    Program outline() const;
    // Copies the outline's dispatches up to the mark into this empty program; the caller keeps the memory.
    void start_with(const Program &outline, const Mark &end, bool to_host);
    // The host reads what was written: the recording ends with a barrier for it.
    void read_by_host() { read_by_host_ = true; }

    bool empty() const { return nodes_.empty(); }
    bool ends_at_host() const { return read_by_host_; }
    const std::vector<Node> &nodes() const { return nodes_; }
    const Use *uses(const Node &node) const { return uses_.data() + node.first_use; }
    const void *push(const Node &node) const { return push_.data() + node.first_push; }
    uint64_t barriers() const { return barriers_; }
    std::vector<Use> &all_uses() { return uses_; }    // for the memory plan
    std::vector<Node> &all_nodes() { return nodes_; } // for overlap.hpp and pipelines.hpp
    // Fills this memory with OVERLAP_MISSING before the first dispatch of each run.
    void begin_missing(Use memory) { missing_.push_back(std::move(memory)); }
    const std::vector<Use> &missing() const { return missing_; }
    // Whether the dispatch waits for a result by itself, or others for one of its results.
    bool takes_part(const Node &node) const {
        return std::any_of(uses(node), uses(node) + node.layout.bindings, [](const Use &use) { return use.awaited; });
    }
    // Whether it waits.
    bool awaits(const Node &node) const {
        return std::any_of(uses(node), uses(node) + node.layout.bindings,
                           [](const Use &use) { return use.awaited && use.access == KPX_READ; });
    }
    // Whether it does, and has no barrier before it; how many of them do.
    bool overlaps(const Node &node) const { return !node.barrier && awaits(node); }
    uint64_t overlaps() const {
        return uint64_t(
            std::count_if(nodes_.begin(), nodes_.end(), [this](const Node &node) { return overlaps(node); }));
    }

    // Marks the nodes that need a barrier before them (hazards.hpp).
    void plan();

  private:
    static constexpr size_t kFewNodes = 128;

    std::vector<Node> nodes_;
    std::vector<Use> uses_;
    std::vector<uint8_t> push_;
    std::vector<Use> missing_;
    std::vector<std::shared_ptr<const void>> kept_;
    bool read_by_host_ = false;
    int32_t op_ = -1;
    uint32_t call_ = 0;
    uint64_t barriers_ = 0;
};

} // namespace kpx
