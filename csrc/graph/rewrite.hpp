// When a group of nodes may be replaced by one, or a node removed.
#pragma once

#include <vector>

#include "graph/graph.hpp"

namespace kpx {

// Whether everything that the group writes is written by the fused node too or seen by nobody else, and whether that
// node touches only what the group touches and reads nothing that would no longer be written.
bool keeps_meaning(const Graph &graph, const std::vector<Graph::Id> &group, const OpNode &fused);

// The member in whose place the whole group, which is sorted, may run; Graph::kNone if there is none.
Graph::Id place(const Graph &graph, const std::vector<Graph::Id> &group);

// Whether anything may see what the node writes.
bool observable(const Graph &graph, Graph::Id id);

} // namespace kpx
