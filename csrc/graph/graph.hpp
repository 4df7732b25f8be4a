// Op calls as a graph, before they are recorded. A stream appends nodes in the
// order of the calls, each with the dispatches that its lowering appended; passes
// (csrc/fusion) replace groups of nodes by one; the result becomes a Program.
// Edges are not stored: they follow from the bytes that nodes read and write.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/views.hpp"
#include "ops/gen_ops.hpp"
#include "record/program.hpp"

namespace kpx {

class Device;

// One op call, or opaque work (a transfer, a user's dispatch) that passes do not
// look into but whose arrays still order it.
struct OpNode {
    static constexpr int32_t kOpaque = -1;

    int32_t op = kOpaque;           // row of ops.def
    std::vector<Array> arrays;      // in the order of ops.def; an absent one has no buffer
    std::vector<kpx_access> access; // one per array. KPX_WRITE: every element of the view is written, none read
    std::vector<uint8_t> params;

    // Set by Graph.
    const char *pass = nullptr;   // the pass that made this node
    std::vector<int32_t> fused;   // the ops that it replaced
    bool removed = false;         // by a pass
    bool from_pass = false;       // its dispatches are in lowered_, not in the window's program
    uint32_t first = 0, last = 0; // its dispatches: [first, last)

    void clear();                         // keeps the lists' capacity
    bool is(std::string_view name) const; // whether it is the op of that name
    bool reads(size_t array) const { return arrays[array] && (access[array] & KPX_READ); }
    bool writes(size_t array) const { return arrays[array] && (access[array] & KPX_WRITE); }
    // This node as a Call, if it is of Call's op. The result refers to this node.
    template <typename Call> std::optional<Call> as() const {
        using Params = typename Call::Params;
        if (op != Call::kOp || params.size() != sizeof(Params) || arrays.size() < std::size(Call::kOperands)) {
            return std::nullopt;
        }
        return Call(arrays.data(), uint32_t(arrays.size()), *reinterpret_cast<const Params *>(params.data()));
    }
};

// A node of Call's op with these parameters. Operands that are not set are absent.
template <typename Call> class NodeOf {
  public:
    explicit NodeOf(const typename Call::Params &op) {
        node.op = Call::kOp;
        node.arrays.resize(std::size(Call::kOperands));
        for (const OperandInfo &operand : Call::kOperands) {
            node.access.push_back(operand.access);
        }
        const auto *bytes = reinterpret_cast<const uint8_t *>(&op);
        node.params.assign(bytes, bytes + sizeof op);
    }
    NodeOf &set(uint32_t operand, const Array &array) {
        node.arrays[operand] = array;
        return *this;
    }
    OpNode node;
};

class Graph {
  public:
    using Id = uint32_t; // stays valid while passes run; a smaller one runs earlier
    static constexpr Id kNone = UINT32_MAX;

    // A use of some bytes: array `array` of node `node`.
    struct Touch {
        Id node;
        uint32_t array;
    };

    // ---- Walking: for (Id i = g.next(Graph::kNone); i != Graph::kNone; i = g.next(i)) ----
    Id next(Id after) const; // kNone as argument: the first node; as result: no more nodes
    Id previous(Id before) const;
    const OpNode &node(Id id) const { return nodes_[id]; }
    const Array &array(const Touch &touch) const { return nodes_[touch.node].arrays[touch.array]; }

    // ---- Questions ----
    // The last write of any byte of the view before the node `reader`; none if it was before this graph.
    std::optional<Touch> producer(Id reader, const Array &view) const;
    // Uses of bytes of the view by nodes after `id`, in order.
    std::vector<Touch> uses_after(Id id, const Array &view) const;
    // All uses of the view's buffer, in order.
    const std::vector<Touch> &uses(const Array &view) const;
    // Whether only these nodes see the view's buffer: its handle is destroyed, no
    // other node touches it, and the first of them that does writes all of it.
    // Such an intermediate may be fused away.
    bool internal(const Array &view, const std::vector<Id> &group) const;

    // Whether the first node that touches the view's buffer writes all of it, so
    // that no earlier content is read. Also true if no node touches it.
    bool starts_written(const Array &view) const { return view && starts_written(*view.buffer); }
    bool starts_written(const Buffer &buffer) const;

    // ---- Rewriting ----
    // Replaces the group by one node, which runs in the place of one of the group.
    // Returns false, and changes nothing, if
    // - the fused op's lowering does not support these operands on this device,
    // - something that the group writes is neither written by `fused` nor internal,
    // - `fused` reads what only the group wrote, or touches what the group does not,
    // - a node between the group's nodes would run in the wrong order.
    bool replace(std::vector<Id> group, OpNode fused);
    // Removes a node whose results are not observable; false if they may be.
    bool remove(Id id);

    // ---- For the stream and the runner ----
    // replayed: the graph becomes a region, not an eager window that runs once.
    explicit Graph(Device &device, bool replayed = false) : device_(&device), replayed_(replayed) {}
    bool replayed() const { return replayed_; }
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    // An empty node after the last, which keep_spare() makes part of the graph.
    OpNode &spare();
    void keep_spare();
    void append(OpNode node);
    void clear();                                     // keeps memory for later nodes
    void set_pass(const char *name) { pass_ = name; } // the pass that makes the next replacements
    bool changed() const { return changed_; }
    // The dispatches of the remaining nodes, from `trial` and from what passes lowered.
    Program program(const Program &trial) const;
    // Undoes what passes have changed, lowers all ops again, since the driver has refused a kernel, and returns the
    // dispatches in place of `trial`.
    Program lower_again(const Program &trial);

  private:
    void index() const;
    void index_node(Id id) const;
    void forget_node(Id id) const;
    const std::vector<Touch> &touches(const Buffer *buffer) const;
    const std::vector<Touch> &touches(const Array &view) const { return touches(view.buffer.get()); }
    bool lower(OpNode &fused);
    void drop_node(Id id);
    void restore();

    Device *device_;
    bool replayed_;
    std::vector<OpNode> nodes_; // the first size_ are in use, the others are kept for reuse
    size_t size_ = 0;
    std::vector<std::pair<Id, OpNode>> dropped_; // by passes, of the nodes that were appended
    Program lowered_;                            // of fused nodes
    const char *pass_ = nullptr;
    bool changed_ = false;
    mutable bool indexed_ = false; // by_buffer_ is built when a pass first asks
    mutable std::unordered_map<const Buffer *, std::vector<Touch>> by_buffer_;
};

} // namespace kpx
