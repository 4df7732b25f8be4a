#include "graph/graph.hpp"

#include <algorithm>

#include "abi/error.hpp"
#include "abi/text.hpp"
#include "graph/rewrite.hpp"
#include "ops/op_table.hpp"
#include "record/lowering.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"

namespace kpx {

bool OpNode::is(std::string_view name) const {
    return op != kOpaque && name == op_row(op).name;
}

void OpNode::clear() {
    op = kOpaque;
    arrays.clear();
    access.clear();
    params.clear();
    pass = nullptr;
    fused.clear();
    removed = from_pass = false;
}

OpNode &Graph::spare() {
    if (size_ == nodes_.size()) {
        nodes_.emplace_back();
    }
    return nodes_[size_];
}

void Graph::keep_spare() {
    size_++;
    indexed_ = false;
}

void Graph::append(OpNode node) {
    spare() = std::move(node);
    keep_spare();
}

void Graph::clear() {
    for (size_t i = 0; i < size_; i++) {
        nodes_[i].clear();
    }
    size_ = 0;
    dropped_.clear();
    lowered_ = Program();
    changed_ = indexed_ = false;
    by_buffer_.clear();
}

Graph::Id Graph::next(Id after) const {
    for (Id id = after == kNone ? 0 : after + 1; id < size_; id++) {
        if (!nodes_[id].removed) {
            return id;
        }
    }
    return kNone;
}

Graph::Id Graph::previous(Id before) const {
    for (Id id = before == kNone ? Id(size_) : before; id-- > 0;) {
        if (!nodes_[id].removed) {
            return id;
        }
    }
    return kNone;
}

// Built when a pass first asks, so that passes without a match cost nothing.
void Graph::index() const {
    if (indexed_) {
        return;
    }
    by_buffer_.clear();
    for (Id id = 0; id < size_; id++) {
        if (!nodes_[id].removed) {
            index_node(id);
        }
    }
    indexed_ = true;
}

void Graph::index_node(Id id) const {
    const OpNode &node = nodes_[id];
    for (uint32_t i = 0; i < node.arrays.size(); i++) {
        if (!node.arrays[i]) {
            continue;
        }
        std::vector<Touch> &list = by_buffer_[node.arrays[i].buffer.get()];
        const auto later = [](Id value, const Touch &touch) { return value < touch.node; };
        list.insert(std::upper_bound(list.begin(), list.end(), id, later), Touch{id, i});
    }
}

void Graph::forget_node(Id id) const {
    for (const Array &array : nodes_[id].arrays) {
        const auto it = by_buffer_.find(array.buffer.get());
        if (array && it != by_buffer_.end()) {
            std::vector<Touch> &list = it->second;
            list.erase(std::remove_if(list.begin(), list.end(), [&](const Touch &t) { return t.node == id; }),
                       list.end());
        }
    }
}

const std::vector<Graph::Touch> &Graph::touches(const Buffer *buffer) const {
    static const std::vector<Touch> none;
    index();
    const auto it = by_buffer_.find(buffer);
    return it == by_buffer_.end() ? none : it->second;
}

std::optional<Graph::Touch> Graph::producer(Id reader, const Array &view) const {
    const std::vector<Touch> &list = touches(view);
    for (auto it = list.rbegin(); it != list.rend(); ++it) {
        if (it->node < reader && node(it->node).writes(it->array) && overlaps(array(*it), view)) {
            return *it;
        }
    }
    return std::nullopt;
}

std::vector<Graph::Touch> Graph::uses_after(Id id, const Array &view) const {
    std::vector<Touch> found;
    for (const Touch &touch : touches(view)) {
        if (touch.node > id && overlaps(array(touch), view)) {
            found.push_back(touch);
        }
    }
    return found;
}

const std::vector<Graph::Touch> &Graph::uses(const Array &view) const {
    return touches(view);
}

bool Graph::starts_written(const Buffer &buffer) const {
    const std::vector<Touch> &list = touches(&buffer);
    bool covered = list.empty();
    for (const Touch &touch : list) {
        if (touch.node != list.front().node) {
            break;
        }
        if (node(touch.node).reads(touch.array)) {
            return false;
        }
        covered = covered || covers_buffer(array(touch));
    }
    return covered;
}

bool Graph::internal(const Array &view, const std::vector<Id> &group) const {
    if (!is_transient(view) || !starts_written(view)) {
        return false;
    }
    const std::vector<Touch> &list = touches(view);
    return std::all_of(list.begin(), list.end(), [&](const Touch &touch) {
        return std::find(group.begin(), group.end(), touch.node) != group.end();
    });
}

bool Graph::lower(OpNode &fused) {
    const Program::Mark mark = lowered_.mark();
    lowered_.begin_call(fused.op);
    try {
        const OpCall call{fused.arrays.data(), uint32_t(fused.arrays.size()), fused.params.data(),
                          uint32_t(fused.params.size())};
        lower_call(*device_, lowered_, fused.op, call, replayed_ ? ScratchMemory::later : ScratchMemory::now,
                   Making::now);
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
    const Id at = place(*this, group);
    if (at == kNone || !keeps_meaning(*this, group, fused) || !lower(fused)) {
        return false;
    }
    fused.pass = pass_;
    for (Id id : group) {
        const OpNode &old = nodes_[id];
        if (old.fused.empty()) {
            fused.fused.push_back(old.op);
        }
        fused.fused.insert(fused.fused.end(), old.fused.begin(), old.fused.end());
        drop_node(id);
    }
    nodes_[at] = std::move(fused);
    index_node(at);
    changed_ = true;
    return true;
}

void Graph::drop_node(Id id) {
    forget_node(id);
    if (!nodes_[id].from_pass) {
        dropped_.emplace_back(id, std::move(nodes_[id]));
    }
    nodes_[id].clear();
    nodes_[id].removed = true;
}

bool Graph::remove(Id id) {
    if (nodes_[id].removed || nodes_[id].op == OpNode::kOpaque || observable(*this, id)) {
        return false;
    }
    drop_node(id);
    changed_ = true;
    return true;
}

void Graph::restore() {
    for (std::pair<Id, OpNode> &one : dropped_) {
        nodes_[one.first] = std::move(one.second);
    }
    dropped_.clear();
    lowered_ = Program();
    changed_ = indexed_ = false;
}

Program Graph::lower_again(const Program &trial) {
    restore();
    Program out;
    for (Id id = next(kNone); id != kNone; id = next(id)) {
        OpNode &node = nodes_[id];
        const auto first = uint32_t(out.nodes().size());
        if (node.op == OpNode::kOpaque) {
            out.append(trial, node.first, node.last);
        } else {
            out.begin_call(node.op);
            const OpCall call{node.arrays.data(), uint32_t(node.arrays.size()), node.params.data(),
                              uint32_t(node.params.size())};
            try {
                lower_call(*device_, out, node.op, call, ScratchMemory::later, Making::now);
            } catch (const Error &e) {
                throw Error(e.code, formatted("{}: {}", op_row(node.op).name, e.what()));
            }
        }
        node.first = first;
        node.last = uint32_t(out.nodes().size());
    }
    if (trial.ends_at_host()) {
        out.read_by_host();
    }
    return out;
}

Program Graph::program(const Program &trial) const {
    Program out;
    for (Id id = next(kNone); id != kNone; id = next(id)) {
        out.append(nodes_[id].from_pass ? lowered_ : trial, nodes_[id].first, nodes_[id].last);
    }
    if (trial.ends_at_host()) {
        out.read_by_host();
    }
    return out;
}

} // namespace kpx
