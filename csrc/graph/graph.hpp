// Op calls as a graph, before they are recorded. A stream appends nodes in the
// order of the calls, each with the dispatches that its lowering gave; passes
// (csrc/fusion) replace groups of nodes by one; what is left becomes a Program.
// Edges are not stored: they follow from the bytes that nodes read and write.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/gen_ops.hpp"
#include "record/program.hpp"

namespace kpx {

class Device;

// One op call, or something opaque (a transfer, a user's dispatch) that no pass
// looks into but whose arrays still order it.
struct OpNode {
    static constexpr int32_t kOpaque = -1;

    int32_t op = kOpaque;           // row of ops.def
    std::vector<Array> arrays;      // in the order of ops.def; an absent one has no buffer
    std::vector<kpx_access> access; // one per array. KPX_WRITE: every element of the view is written, none read
    std::vector<uint8_t> params;

    // Set by Graph.
    const char *pass = nullptr;   // the pass that made this node
    std::vector<int32_t> fused;   // and the ops it stands for
    bool removed = false;         // by a pass
    bool from_pass = false;       // which program holds its dispatches
    uint32_t first = 0, last = 0; // they are [first, last)

    void clear();                         // keeps its lists' memory
    bool is(std::string_view name) const; // an op of that name
    bool reads(size_t array) const { return arrays[array] && (access[array] & KPX_READ); }
    bool writes(size_t array) const { return arrays[array] && (access[array] & KPX_WRITE); }
    // The call of the op that Call stands for, if it is one. It refers to this node.
    template <typename Call> std::optional<Call> as() const {
        using Params = typename Call::Params;
        if (op != Call::kOp || params.size() != sizeof(Params) || arrays.size() < std::size(Call::kOperands)) {
            return std::nullopt;
        }
        return Call(arrays.data(), uint32_t(arrays.size()), *reinterpret_cast<const Params *>(params.data()));
    }
};

// A node of the op that Call stands for, with those parameters. Operands that are not set are absent.
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
    Id next(Id after) const; // kNone starts, and ends
    Id previous(Id before) const;
    const OpNode &node(Id id) const { return nodes_[id]; }
    const Array &array(const Touch &touch) const { return nodes_[touch.node].arrays[touch.array]; }

    // ---- Questions ----
    // Whose write of bytes of the view the node `reader` sees last; none if that was before this graph.
    std::optional<Touch> producer(Id reader, const Array &view) const;
    // Uses of bytes of the view by nodes after `id`, in order.
    std::vector<Touch> uses_after(Id id, const Array &view) const;
    // All uses of the view's buffer, in order.
    std::vector<Touch> uses(const Array &view) const;
    // Whether the view's buffer is seen by these nodes only: its handle is
    // destroyed, no other node touches it, and the first of them that does
    // writes all of it. Such an intermediate may be fused away.
    bool internal(const Array &view, const std::vector<Id> &group) const;

    // Whether the first node that touches the view's buffer writes all of it, so
    // that nothing comes in from before. True as well if none does.
    bool starts_written(const Array &view) const { return view && starts_written(*view.buffer); }
    bool starts_written(const Buffer &buffer) const;

    // ---- Rewriting ----
    // Replaces the group by one node, which runs where one of the group did.
    // Answers false, and changes nothing, if
    // - the fused op's lowering does not support these operands on this device,
    // - something that the group writes is neither written by `fused` nor internal,
    // - `fused` reads what only the group wrote, or touches what the group does not,
    // - a node between the group's nodes would run in the wrong order.
    bool replace(std::vector<Id> group, OpNode fused);
    // Removes a node whose results are not observable; false if they may be.
    bool remove(Id id);

    // ---- For the stream and the runner ----
    // replayed: it becomes a region, not an eager window that runs once.
    explicit Graph(Device &device, bool replayed = false) : device_(&device), replayed_(replayed) {}
    bool replayed() const { return replayed_; }
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    // An empty node after the last, which keep_spare() makes part of the graph.
    OpNode &spare();
    void keep_spare();
    void append(OpNode node);
    void clear();                                     // keeps memory for the nodes that follow
    void set_pass(const char *name) { pass_ = name; } // whose replacements follow
    bool changed() const { return changed_; }
    // The dispatches of what is left, from `trial` and from what passes lowered.
    Program program(const Program &trial) const;

  private:
    void index() const;
    void index_node(Id id) const;
    void forget_node(Id id) const;
    const std::vector<Touch> &touches(const Buffer *buffer) const;
    const std::vector<Touch> &touches(const Array &view) const { return touches(view.buffer.get()); }
    bool keeps_results(const std::vector<Id> &group, const OpNode &fused) const;
    bool keeps_operands(const std::vector<Id> &group, const OpNode &fused) const;
    bool conflict(Id a, Id b) const;
    Id place(const std::vector<Id> &group) const;
    bool lower(OpNode &fused);

    Device *device_;
    bool replayed_;
    std::vector<OpNode> nodes_; // the first size_ of them, then ones to use again
    size_t size_ = 0;
    Program lowered_; // of fused nodes
    const char *pass_ = nullptr;
    bool changed_ = false;
    mutable bool indexed_ = false; // built when a pass first asks
    mutable std::unordered_map<const Buffer *, std::vector<Touch>> by_buffer_;
};

// ---- Views ----
// The same elements in the same order and shape (strides of axes of size 1 do not count).
bool same_view(const Array &a, const Array &b);
// Both contiguous, and of the same bytes and dtype: one is a reshape of the other.
bool same_data(const Array &a, const Array &b);
// Whether any byte between the first and last element of one is between those of the other.
bool overlaps(const Array &a, const Array &b);
// Every byte of the buffer belongs to exactly one element (padding after the last does not count).
bool covers_buffer(const Array &a);
// Where in the buffer its elements lie, gaps included; empty if it has none.
struct ByteRange {
    uint64_t start, end;
};
ByteRange bytes_of(const Array &a);
// The handle of its buffer is destroyed: only work appended before sees it.
bool is_transient(const Array &a);

} // namespace kpx
