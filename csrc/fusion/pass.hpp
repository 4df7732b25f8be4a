// A pass finds groups of nodes whose work one op can do, and replaces them by it.
//
// csrc/fusion/<name>.cpp defines `void kpx::pass_<name>(Graph &)`, passes.def
// lists it, csrc/tests/<name>_test.cpp tests it. A pass
// - walks the graph from a node that it recognises (node.as<QuantizedMatMulCall>()),
// - follows data by producer() and uses_after(), comparing views by same_view()
//   or same_data(),
// - builds the fused node with NodeOf: a row of ops.def like any other,
//   with a lowering in csrc/ops, which no Go function calls,
// - calls replace(), which checks everything that could make the rewrite wrong (lost
//   results, order, no support on this device) and answers false then: the
//   group stays as it is, and the pass tries the next, maybe a smaller one.
// Passes run once each, in the order of passes.def, so that one can build on
// the nodes of another.
//
// They run over regions only. An eager window ends where it is full, or where
// something is read or recorded: what could be fused, and with it the last bits
// of a result, would depend on that; most of its intermediates have handles that
// are still open; and one run does not gain back what the passes take.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace kpx {

struct Pass {
    const char *name;
    void (*run)(Graph &graph);
};

#define KPX_PASS(name) void pass_##name(Graph &graph);
#include "fusion/passes.def"
#undef KPX_PASS

// All passes, in order. Tests may add their own before they open a device.
std::vector<Pass> &all_passes();

// The passes that a device's regions go through.
class PassSet {
  public:
    // disabled: names of passes to leave out, separated by commas, or all. Throws KPX_INVALID for others.
    explicit PassSet(std::string_view disabled);
    bool empty() const { return passes_.empty(); }
    void run(Graph &graph) const;
    // Memory of a region is planned, unless "memory_plan" is named too.
    bool plans_memory() const { return plans_memory_; }

  private:
    std::vector<Pass> passes_;
    bool plans_memory_;
};

} // namespace kpx
