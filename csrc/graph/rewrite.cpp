// Replacing groups of nodes, and the conditions for it.
#include <algorithm>

#include "abi/error.hpp"
#include "graph/graph.hpp"
#include "ops/op_table.hpp"
#include "record/lowering.hpp"
#include "runtime/device.hpp"

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

} // namespace

// Everything that the group writes is written by the fused node too, or is not observable.
bool Graph::keeps_results(const std::vector<Id> &group, const OpNode &fused) const {
    for (Id id : group) {
        for (size_t i = 0; i < node(id).arrays.size(); i++) {
            const Array &view = node(id).arrays[i];
            if (node(id).writes(i) && !spans(fused, view, KPX_WRITE) && !internal(view, group)) {
                return false;
            }
        }
    }
    return true;
}

// The fused node reads and writes only what the group reads and writes, and reads
// nothing that would no longer be written.
bool Graph::keeps_operands(const std::vector<Id> &group, const OpNode &fused) const {
    for (size_t i = 0; i < fused.arrays.size(); i++) {
        const Array &view = fused.arrays[i];
        if (!view || view.size() == 0) {
            continue;
        }
        bool known_read = !fused.reads(i), known_write = !fused.writes(i), made_inside = false;
        for (Id id : group) {
            known_read = known_read || spans(node(id), view, KPX_READ);
            known_write = known_write || spans(node(id), view, KPX_WRITE);
            for (size_t k = 0; k < node(id).arrays.size(); k++) {
                made_inside = made_inside || (node(id).writes(k) && overlaps(node(id).arrays[k], view));
            }
        }
        const bool stale = fused.reads(i) && made_inside && !spans(fused, view, KPX_WRITE);
        if (!known_read || !known_write || stale) {
            return false;
        }
    }
    return true;
}

bool Graph::conflict(Id a, Id b) const {
    const OpNode &x = node(a), &y = node(b);
    for (size_t i = 0; i < x.arrays.size(); i++) {
        for (size_t k = 0; k < y.arrays.size(); k++) {
            if ((x.writes(i) || y.writes(k)) && overlaps(x.arrays[i], y.arrays[k])) {
                return true;
            }
        }
    }
    return false;
}

// The member in whose place the whole group may run, or kNone. Moving there, no
// member may pass a node that it depends on or that depends on it.
Graph::Id Graph::place(const std::vector<Id> &group) const {
    const auto member = [&](Id id) { return std::find(group.begin(), group.end(), id) != group.end(); };
    for (auto at = group.rbegin(); at != group.rend(); ++at) {
        bool free = true;
        for (Id id : group) {
            const Id start = std::min(id, *at), stop = std::max(id, *at);
            for (Id between = next(start); free && between < stop; between = next(between)) {
                free = member(between) || !conflict(id, between);
            }
        }
        if (free) {
            return *at;
        }
    }
    return kNone;
}

bool Graph::lower(OpNode &fused) {
    const Program::Mark mark = lowered_.mark();
    lowered_.begin_call(fused.op);
    try {
        const OpCall call{fused.arrays.data(), uint32_t(fused.arrays.size()), fused.params.data(),
                          uint32_t(fused.params.size())};
        lower_call(*device_, lowered_, fused.op, call);
        fused.first = uint32_t(mark.nodes);
        fused.last = uint32_t(lowered_.nodes().size());
        fused.from_pass = true;
        return true;
    } catch (const Error &e) { // the group stays, unless the pass made a mistake
        if (e.code != KPX_UNSUPPORTED && e.code != KPX_OUT_OF_MEMORY && e.code != KPX_TOO_LARGE) {
            lowered_.cut(mark);
            throw;
        }
    }
    lowered_.cut(mark);
    return false;
}

bool Graph::replace(std::vector<Id> group, OpNode fused) {
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
    for (Id id : group) {
        if (id >= size_ || nodes_[id].removed || nodes_[id].op == OpNode::kOpaque) {
            return false;
        }
    }
    const Id at = place(group);
    if (at == kNone || !keeps_results(group, fused) || !keeps_operands(group, fused) || !lower(fused)) {
        return false;
    }
    fused.pass = pass_;
    for (Id id : group) {
        const OpNode &old = nodes_[id];
        if (old.fused.empty()) {
            fused.fused.push_back(old.op);
        }
        fused.fused.insert(fused.fused.end(), old.fused.begin(), old.fused.end());
        forget_node(id);
        nodes_[id].clear();
        nodes_[id].removed = true;
    }
    nodes_[at] = std::move(fused);
    index_node(at);
    changed_ = true;
    return true;
}

bool Graph::remove(Id id) {
    const OpNode &old = nodes_[id];
    if (old.removed || old.op == OpNode::kOpaque) {
        return false;
    }
    for (size_t i = 0; i < old.arrays.size(); i++) {
        if (!old.writes(i)) {
            continue;
        }
        // A replay may read at its start what the previous one wrote at its end.
        const Array &view = old.arrays[i];
        const std::vector<Touch> &all = touches(view);
        const bool alone = all.front().node == id && all.back().node == id;
        const bool carried = !alone && !starts_written(view);
        if (!is_transient(view) || carried || !uses_after(id, view).empty()) {
            return false;
        }
    }
    forget_node(id);
    nodes_[id].clear();
    nodes_[id].removed = true;
    changed_ = true;
    return true;
}

} // namespace kpx
