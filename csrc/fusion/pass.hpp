// A pass finds groups of nodes whose work one op can do, and replaces them by it.
//
// csrc/fusion/<name>.cpp defines `void kpx::pass_<name>(Graph &)`, passes.def
// lists it, and a test in csrc/tests or ops tests it. A pass
// - walks the graph from a node that it recognises (node.as<QuantizedMatMulCall>()),
// - follows data by producer() and uses_after(), comparing views by same_view()
//   or same_data(),
// - builds the fused node with NodeOf: a row of ops.def like any other,
//   with a lowering in csrc/ops, which no Go function calls,
// - calls replace(), which checks everything that could make the rewrite wrong (lost
//   results, order, no support on this device) and returns false if anything would: then the
//   group stays as it is, and the pass tries the next one, which may be smaller.
//
// Passes run once each, in the order of passes.def, so that one can build on the nodes of another.
//
// They run over regions only. An eager window ends where it is full, or where
// something is read or recorded: what could be fused, and with it the last bits
// of a result, would depend on that; most of its intermediates have handles that
// are still open; and a single run does not recover the time that the passes
// take.
#pragma once

#include "graph/graph.hpp"

namespace kpx {

#define KPX_PASS(name) void pass_##name(Graph &graph);
#include "fusion/passes.def"
#undef KPX_PASS

} // namespace kpx
