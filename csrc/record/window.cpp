#include "record/window.hpp"

#include <atomic>

#include "fusion/passes.hpp"
#include "runtime/memory.hpp"

namespace kpx {

void Window::follow(std::shared_ptr<const KnownWindow> known) {
    static std::atomic<uint64_t> windows{0};
    known_ = std::move(known);
    if (known_) {
        number_ = ++windows;
        program_.make_room_to_keep(3 * known_->log.size());
    }
}

void Window::keep(const std::shared_ptr<Buffer> &memory) {
    if (memory->first_use_in(number_)) {
        program_.keep(memory);
    }
}

bool Window::repeat(const RawCall &call, Memory &memory, bool &has_dispatch) {
    const CallLog &log = known_->log;
    if (followed_ == log.size() || !log.equals(followed_, call)) {
        return false;
    }
    struct Emptied {
        std::vector<std::shared_ptr<Buffer>> &list;
        ~Emptied() { list.clear(); } // also of what was taken before there was no memory
    } const emptied{scratch_};
    if (!log.take_scratch(followed_, memory, scratch_)) {
        return false; // the lowering allocates it again
    }
    program_.make_room_to_keep(scratch_.size() + call.n);
    for (std::shared_ptr<Buffer> &buffer : scratch_) {
        program_.keep(std::move(buffer));
    }
    const size_t before = followed_ == 0 ? 0 : log.call(followed_ - 1).end.nodes;
    has_dispatch = log.call(followed_).end.nodes > before;
    followed_++;
    if (followed_ < log.size()) { // while the caller prepares it
        log.prefetch(followed_);
    }
    return true;
}

const KnownWindow *Window::repeated() const {
    return known_ && followed_ > 0 && followed_ == known_->log.size() ? known_.get() : nullptr;
}

void Window::leave() {
    if (!known_) {
        return;
    }
    if (followed_ > 0) {
        const CallLog::Call &last = known_->log.call(followed_ - 1);
        program_.start_with(known_->outline, last.end, last.to_host);
        log_.assign(known_->log, followed_);
    }
    known_.reset();
    followed_ = 0;
}

Program Window::finish(const PassSet &passes) {
    if (!passes.empty() && !graph_.empty()) {
        passes.run(graph_);
        if (graph_.changed()) {
            return graph_.program(program_);
        }
    }
    return program_;
}

void Window::clear() {
    graph_.clear();
    program_ = Program();
    log_.clear();
    known_.reset();
    followed_ = 0;
}

} // namespace kpx
