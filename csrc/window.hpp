// Work that was appended and is not recorded yet: what a stream collects until
// it is flushed, or until a capture ends. Every op is lowered when it comes, so
// that "unsupported" is answered at once; if passes rewrite the graph later,
// only what they made is lowered anew.
#pragma once

#include "graph.hpp"
#include "program.hpp"

namespace kpx {

class PassSet;

class Window {
  public:
    // keep_graph: false if no pass will look at it, which is a little faster.
    // replayed: the window of a capture.
    Window(Device &device, bool keep_graph, bool replayed)
        : graph_(device, replayed), keep_graph_(keep_graph) {}

    // lower(node, program) appends the node's dispatches. Nothing stays when it throws.
    template <typename Lower> void append(OpNode node, Lower lower) {
        const Program::Mark mark = program_.mark();
        try {
            lower(node, program_);
            if (keep_graph_) {
                node.first = uint32_t(mark.nodes);
                node.last = uint32_t(program_.nodes().size());
                graph_.append(std::move(node));
            }
        } catch (...) {
            program_.cut(mark);
            throw;
        }
    }
    void read_by_host() { program_.read_by_host(); }
    bool empty() const { return program_.empty(); }
    bool keeps_graph() const { return keep_graph_; }
    Graph &graph() { return graph_; }

    // The dispatches to record; the window is used up.
    Program finish(const PassSet &passes);

  private:
    Graph graph_;
    Program program_;
    bool keep_graph_;
};

} // namespace kpx
