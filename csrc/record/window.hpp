// Work that was appended and is not recorded yet: what a stream collects until
// it is flushed, or until a capture ends. Every op is lowered when it is appended,
// so that "unsupported" is reported at once; if passes rewrite the graph later,
// only the nodes that they made are lowered. Pipelines of a captured window are
// built when the capture ends (pipelines.hpp). A window that begins like a recorded
// one follows it: as long as the calls are the same, nothing is lowered.
#pragma once

#include "graph/graph.hpp"
#include "record/call_log.hpp"
#include "record/program.hpp"

namespace kpx {

class PassSet;

// A recorded window: its calls, and their dispatches without the memory.
struct KnownWindow {
    CallLog log;
    Program outline;
};

class Window {
  public:
    // captured: the window of a capture, which keeps the graph for the passes.
    Window(Device &device, bool captured) : graph_(device, captured), keep_graph_(captured) {}

    // fill(node) fills an empty node with the call, lower(node, program) appends its dispatches. If one of them throws,
    // nothing was appended. call: the op call, or null for other work. Returns whether there is a dispatch; work on no
    // elements has none.
    template <typename Fill, typename Lower> bool append(Fill fill, Lower lower, const CallWords *call = nullptr) {
        leave();
        const Program::Mark mark = program_.mark();
        OpNode &node = graph_.spare();
        try {
            fill(node);
            program_.begin_call(node.op);
            lower(node, program_);
            if (!keep_graph_) {
                call != nullptr ? log_.add(*call, program_) : log_.add_other();
            }
        } catch (...) {
            program_.cut(mark);
            log_.drop_unfinished();
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
    bool empty() const { return program_.empty() && followed_ == 0; }
    bool captured() const { return keep_graph_; }
    Graph &graph() { return graph_; }
    CallLog &log() { return log_; }

    // ---- Following a known window ----
    void follow(std::shared_ptr<const KnownWindow> known);
    bool follows() const { return known_ != nullptr; }
    // Appends the call if it is the next one of the known window. The caller then calls keep() for each operand, which
    // cannot fail. has_dispatch: as append() returns it.
    bool repeat(const RawCall &call, Memory &memory, bool &has_dispatch);
    void keep(const std::shared_ptr<Buffer> &memory);
    // The known window that this one repeats from the first to the last call, or null.
    const KnownWindow *repeated() const;

    // The dispatches to record, as they were appended.
    Program take() {
        leave();
        return std::move(program_);
    }
    // A program without dispatches that keeps the memory of a window that is repeated().
    Program take_kept() { return std::move(program_); }
    // Runs the passes on what was captured, and returns its dispatches. The graph keeps its nodes until clear().
    Program finish(const PassSet &passes);
    // Then, if the driver has refused a kernel: lowers the calls again, which chooses other kernels.
    void lower_again() { program_ = graph_.lower_again(program_); }
    // Empties the window, and keeps its capacity.
    void clear();

  private:
    // Stops following, and copies the dispatches of the calls so far.
    void leave();

    Graph graph_;
    Program program_;
    bool keep_graph_;
    CallLog log_; // of the calls so far; not maintained while following
    std::shared_ptr<const KnownWindow> known_;
    size_t followed_ = 0; // how many of its calls were repeated
    uint64_t number_ = 0; // unique to this window; only set while following
    std::vector<std::shared_ptr<Buffer>> scratch_;
};

} // namespace kpx
