#include "record/program.hpp"

#include "record/hazards.hpp"
#include "runtime/memory.hpp"

namespace kpx {

// Until a buffer is placed, its own offset is 0.
void Use::resolve() {
    if (storage != nullptr && buffer.serial != storage->serial()) {
        buffer = storage->handle();
        offset += storage->offset();
    }
}

void Program::cut(const Mark &mark) {
    nodes_.resize(mark.nodes);
    uses_.resize(mark.uses);
    push_.resize(mark.push);
}

void Program::begin_call(int32_t op) {
    if (nodes_.capacity() == 0) { // reserves enough for most windows
        nodes_.reserve(kFewNodes);
        uses_.reserve(5 * kFewNodes);
        push_.reserve(64 * kFewNodes);
    }
    op_ = op;
    call_++;
}

void Program::use(Use use) {
    const bool seen_by_host = use.storage != nullptr && use.storage->mapped() != nullptr;
    read_by_host_ = read_by_host_ || (seen_by_host && (use.access & KPX_WRITE));
    uses_.push_back(std::move(use));
}

void Program::dispatch(const Pipeline &pipeline, const char *kernel, const void *push, uint32_t push_bytes, Grid grid,
                       std::shared_ptr<const void> owner, std::shared_ptr<const SpecConstants> constants) {
    Node node{};
    node.pipeline = pipeline.handle;
    node.layout = pipeline.layout;
    node.variant = pipeline.variant;
    node.kernel = kernel;
    node.owner = std::move(owner);
    node.constants = std::move(constants);
    node.first_use = uint32_t(uses_.size()) - pipeline.layout.bindings;
    node.first_push = uint32_t(push_.size());
    node.push_bytes = push_bytes;
    node.op = op_;
    node.call = call_;
    node.grid = grid;
    const auto *bytes = static_cast<const uint8_t *>(push);
    push_.insert(push_.end(), bytes, bytes + push_bytes);
    nodes_.push_back(std::move(node));
}

void Program::append(const Program &other, size_t first, size_t last) {
    if (first < last) {
        begin_call(other.nodes_[first].op);
    }
    for (size_t i = first; i < last; i++) {
        const Node &node = other.nodes_[i];
        for (uint32_t u = 0; u < node.layout.bindings; u++) {
            use(other.uses(node)[u]);
        }
        dispatch({node.pipeline, node.layout, node.variant}, node.kernel, other.push(node), node.push_bytes, node.grid,
                 node.owner, node.constants);
    }
}

Program Program::outline() const {
    Program out = *this;
    out.kept_.clear();
    for (Use &use : out.uses_) {
        use.owner.reset();
        use.storage = nullptr;
    }
    return out;
}

void Program::start_with(const Program &outline, const Mark &end, bool to_host) {
    nodes_.assign(outline.nodes_.begin(), outline.nodes_.begin() + ptrdiff_t(end.nodes));
    uses_.assign(outline.uses_.begin(), outline.uses_.begin() + ptrdiff_t(end.uses));
    push_.assign(outline.push_.begin(), outline.push_.begin() + ptrdiff_t(end.push));
    read_by_host_ = to_host;
    call_ = nodes_.empty() ? 0 : nodes_.back().call;
}

void Program::plan() {
    Hazards hazards;
    barriers_ = 0;
    for (Node &node : nodes_) {
        node.barrier = hazards.add(uses(node), node.layout.bindings, node.apart);
        barriers_ += node.barrier;
    }
}

} // namespace kpx
