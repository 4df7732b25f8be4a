// Work that was appended and is not recorded yet: what a stream collects until
// it is flushed, or until a capture ends. Every op is lowered when it comes, so
// that "unsupported" is answered at once; if passes rewrite the graph later,
// only what they made is lowered anew. A window that begins like one that was
// recorded follows it: as long as the calls are the same, nothing is lowered.
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

    // fill(node) makes an empty node the call, lower(node, program) appends its
    // dispatches. Nothing stays when one of them throws. Returns whether there is a dispatch: work on no elements has
    // none. call: the op call that it is, null if it is something else.
    template <typename Fill, typename Lower> bool append(Fill fill, Lower lower, const CallWords *call = nullptr) {
        leave();
        const Program::Mark mark = program_.mark();
        OpNode &node = graph_.spare();
        try {
            fill(node);
            program_.begin_call(node.op);
            lower(node, program_);
        } catch (...) {
            program_.cut(mark);
            log_.drop_scratch();
            node.clear();
            throw;
        }
        if (keep_graph_) {
            node.first = uint32_t(mark.nodes);
            node.last = uint32_t(program_.nodes().size());
            graph_.keep_spare();
        } else {
            node.clear();
            call != nullptr ? log_.add(*call, program_) : log_.add_other();
        }
        return program_.nodes().size() > mark.nodes;
    }
    void read_by_host() { program_.read_by_host(); }
    bool empty() const { return program_.empty() && followed_ == 0; }
    Graph &graph() { return graph_; }
    CallLog &log() { return log_; }

    // ---- Following a known window ----
    bool may_follow() const { return known_ != nullptr || program_.empty(); }
    void follow(std::shared_ptr<const KnownWindow> known);
    bool follows() const { return known_ != nullptr; }
    // Appends the call if it is the next one of the known window. The caller then calls keep() for each operand.
    // has_dispatch: what append() returns.
    bool repeat(const CallWords &call, Memory &memory, bool &has_dispatch);
    void keep(const std::shared_ptr<Buffer> &memory);
    // The known window that this one repeats from the first to the last call, or null.
    const KnownWindow *repeated() const;

    // The dispatches to record, as they were appended.
    Program take() {
        leave();
        return std::move(program_);
    }
    // What keeps the memory of a window that is repeated().
    Program take_kept() { return std::move(program_); }
    // The same after the passes; the graph is what they came from until clear().
    Program finish(const PassSet &passes);
    // Empties the window, and keeps memory for the next calls.
    void clear();

  private:
    // Stops following, and takes over the dispatches of the calls so far.
    void leave();

    Graph graph_;
    Program program_;
    bool keep_graph_;
    CallLog log_; // of the calls so far; not kept while following
    std::shared_ptr<const KnownWindow> known_;
    size_t followed_ = 0; // of its calls
    uint64_t number_ = 0; // of a window that follows another: no other window has it
    std::vector<std::shared_ptr<Buffer>> scratch_;
};

} // namespace kpx
