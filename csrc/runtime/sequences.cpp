#include "runtime/sequences.hpp"

#include "runtime/creation_check.hpp"
#include "runtime/device.hpp"

namespace kpx {

Sequences::Entry Sequences::take(const Queue &queue) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            Entry entry = std::move(free_.back());
            free_.pop_back();
            return entry;
        }
    }
    device_.count_allocation();
    CreationCheck created(device_.handle());
    Entry made;
    made.sequence =
        std::make_shared<kp::Sequence>(device_.shared_physical(), device_.shared_handle(), queue.handle, queue.family);
    made.pool = created.pool;
    created.done("creating a sequence");
    return made;
}

void Sequences::give_back(Entry entry) noexcept {
    try {
        entry.sequence->clear(); // forgets what was recorded; the commands stay until the pool is reset
        device_.handle().resetCommandPool(entry.pool);
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_.size() < kSpare) {
            free_.push_back(std::move(entry));
        }
    } catch (const std::exception &) {
        // it is freed
    }
}

} // namespace kpx
