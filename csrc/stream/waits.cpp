#include "stream/waits.hpp"

#include <algorithm>

namespace kpx {

void Waits::add(const std::shared_ptr<Timeline> &timeline, uint64_t value) {
    for (Wait &wait : next_) {
        if (wait.timeline == timeline) {
            wait.value = std::max(wait.value, value);
            return;
        }
    }
    next_.push_back({timeline, value, nullptr});
}

bool Waits::has(const std::shared_ptr<Timeline> &timeline, uint64_t value) const {
    const auto found = followed_.find(timeline);
    return found != followed_.end() && found->second >= value;
}

void Waits::add_once(const std::shared_ptr<Timeline> &timeline, uint64_t value) {
    if (has(timeline, value)) {
        return;
    }
    forget_closed();
    add(timeline, value);
    followed_[timeline] = value;
}

void Waits::forget_closed() {
    if (followed_.size() < most_followed_) {
        return;
    }
    for (auto it = followed_.begin(); it != followed_.end();) {
        it = it->first->closed() ? followed_.erase(it) : std::next(it);
    }
    most_followed_ = std::max(kFew, 2 * followed_.size());
}

void Waits::clear() {
    next_.clear();
    followed_.clear();
}

} // namespace kpx
