#include "graph/rewrite.hpp"

#include <algorithm>

namespace kpx {

namespace {

// Whether an array that the node accesses in that way spans the view's bytes.
bool spans(const OpNode &node, const Array &view, kpx_access access) {
    const ByteRange wanted = bytes_of(view);
    for (size_t i = 0; i < node.arrays.size(); i++) {
        if (node.arrays[i].buffer != view.buffer || !(node.access[i] & access)) {
            continue;
        }
        const ByteRange range = bytes_of(node.arrays[i]);
        if (range.start <= wanted.start && wanted.end <= range.end) {
            return true;
        }
    }
    return false;
}

// Whether two nodes must stay in their order.
bool conflict(const OpNode &x, const OpNode &y) {
    for (size_t i = 0; i < x.arrays.size(); i++) {
        for (size_t k = 0; k < y.arrays.size(); k++) {
            if ((x.writes(i) || y.writes(k)) && overlaps(x.arrays[i], y.arrays[k])) {
                return true;
            }
        }
    }
    return false;
}

// Everything that the group writes is written by the fused node too, or is not observable.
bool keeps_results(const Graph &graph, const std::vector<Graph::Id> &group, const OpNode &fused) {
    for (Graph::Id id : group) {
        for (size_t i = 0; i < graph.node(id).arrays.size(); i++) {
            const Array &view = graph.node(id).arrays[i];
            if (graph.node(id).writes(i) && !spans(fused, view, KPX_WRITE) && !graph.internal(view, group)) {
                return false;
            }
        }
    }
    return true;
}

// The fused node reads and writes only what the group reads and writes. Of what is written inside the group, it reads
// only operands that it writes itself, such as caches: anything else it read there could be the content from before the
// write or from after it.
bool keeps_operands(const Graph &graph, const std::vector<Graph::Id> &group, const OpNode &fused) {
    for (size_t i = 0; i < fused.arrays.size(); i++) {
        const Array &view = fused.arrays[i];
        if (!view || view.size() == 0) {
            continue;
        }
        bool known_read = !fused.reads(i), known_write = !fused.writes(i), made_inside = false;
        for (Graph::Id id : group) {
            const OpNode &node = graph.node(id);
            known_read = known_read || spans(node, view, KPX_READ);
            known_write = known_write || spans(node, view, KPX_WRITE);
            for (size_t k = 0; k < node.arrays.size(); k++) {
                made_inside = made_inside || (node.writes(k) && overlaps(node.arrays[k], view));
            }
        }
        const bool in_place = fused.writes(i);
        if (!known_read || !known_write || (made_inside && !in_place)) {
            return false;
        }
    }
    return true;
}

} // namespace

bool keeps_meaning(const Graph &graph, const std::vector<Graph::Id> &group, const OpNode &fused) {
    return keeps_results(graph, group, fused) && keeps_operands(graph, group, fused);
}

// While it moves there, no member may pass a node that it depends on or that depends on it.
Graph::Id place(const Graph &graph, const std::vector<Graph::Id> &group) {
    const auto member = [&](Graph::Id id) { return std::find(group.begin(), group.end(), id) != group.end(); };
    for (auto at = group.rbegin(); at != group.rend(); ++at) {
        bool free = true;
        for (Graph::Id id : group) {
            const Graph::Id start = std::min(id, *at), stop = std::max(id, *at);
            for (Graph::Id between = graph.next(start); free && between < stop; between = graph.next(between)) {
                free = member(between) || !conflict(graph.node(id), graph.node(between));
            }
        }
        if (free) {
            return *at;
        }
    }
    return Graph::kNone;
}

bool observable(const Graph &graph, Graph::Id id) {
    const OpNode &node = graph.node(id);
    for (size_t i = 0; i < node.arrays.size(); i++) {
        if (!node.writes(i)) {
            continue;
        }
        // A replay may read at its start what the previous one wrote at its end.
        const Array &view = node.arrays[i];
        const std::vector<Graph::Touch> &all = graph.uses(view);
        const bool alone = all.front().node == id && all.back().node == id;
        const bool carried = !alone && !graph.starts_written(view);
        if (!is_transient(view) || carried || !graph.uses_after(id, view).empty()) {
            return true;
        }
    }
    return false;
}

} // namespace kpx
