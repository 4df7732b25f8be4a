#include "record/window.hpp"

#include "fusion/pass.hpp"

namespace kpx {

Program Window::finish(const PassSet &passes) {
    if (!passes.empty() && !graph_.empty()) {
        passes.run(graph_);
        if (graph_.changed()) {
            return graph_.program(program_);
        }
    }
    return std::move(program_);
}

void Window::clear() {
    graph_.clear();
    program_ = Program();
}

} // namespace kpx
