// Work that was appended and is not recorded yet: what a stream collects until
// it is flushed, or until a capture ends. Every op is lowered when it comes, so
// that "unsupported" is answered at once; if passes rewrite the graph later,
// only what they made is lowered anew.
#pragma once

#include "graph/graph.hpp"
#include "record/program.hpp"

namespace kpx {

class PassSet;

class Window {
  public:
    // captured: the window of a capture, which keeps the graph for the passes.
    Window(Device &device, bool captured) : graph_(device, captured), keep_graph_(captured) {}

    // fill(node) makes an empty node the call, lower(node, program) appends its
    // dispatches. Nothing stays when one of them throws. Returns whether there is a dispatch: work on no elements has
    // none.
    template <typename Fill, typename Lower> bool append(Fill fill, Lower lower) {
        const Program::Mark mark = program_.mark();
        OpNode &node = graph_.spare();
        try {
            fill(node);
            program_.begin_call(node.op);
            lower(node, program_);
        } catch (...) {
            program_.cut(mark);
            node.clear();
            throw;
        }
        if (keep_graph_) {
            node.first = uint32_t(mark.nodes);
            node.last = uint32_t(program_.nodes().size());
            graph_.keep_spare();
        } else {
            node.clear();
        }
        return program_.nodes().size() > mark.nodes;
    }
    void read_by_host() { program_.read_by_host(); }
    bool empty() const { return program_.empty(); }
    Graph &graph() { return graph_; }

    // The dispatches to record, as they were appended.
    Program take() { return std::move(program_); }
    // The same after the passes; the graph is what they came from until clear().
    Program finish(const PassSet &passes);
    // Empties the window, and keeps memory for the next calls.
    void clear();

  private:
    Graph graph_;
    Program program_;
    bool keep_graph_;
};

} // namespace kpx
