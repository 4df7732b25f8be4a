#include "program.hpp"

namespace kpx {

void Program::cut(const Mark &mark) {
    nodes_.resize(mark.nodes);
    uses_.resize(mark.uses);
    push_.resize(mark.push);
    kept_.resize(mark.kept);
}

void Program::use(const Use &use, std::shared_ptr<const void> owner) {
    uses_.push_back(use);
    keep(std::move(owner));
}

void Program::keep(std::shared_ptr<const void> owner) {
    if (owner && (kept_.empty() || kept_.back() != owner)) {
        kept_.push_back(std::move(owner));
    }
}

void Program::dispatch(vk::Pipeline pipeline, const Layout &layout, const void *push, uint32_t push_bytes, Grid grid) {
    Node node;
    node.pipeline = pipeline;
    node.layout = layout;
    node.first_use = uint32_t(uses_.size()) - layout.bindings;
    node.first_push = uint32_t(push_.size());
    node.push_bytes = push_bytes;
    node.grid = grid;
    const auto *bytes = static_cast<const uint8_t *>(push);
    push_.insert(push_.end(), bytes, bytes + push_bytes);
    nodes_.push_back(node);
}

} // namespace kpx
