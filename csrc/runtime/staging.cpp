#include "runtime/staging.hpp"

#include "runtime/device.hpp"
#include "runtime/tensors.hpp"

namespace kpx {

Staging::Staging(Device &device) : device_(device) {
    for (auto &lists : free_) {
        for (const bool large : {false, true}) {
            lists[large].reserve(kSpare[large]); // so that returning a block takes no memory
        }
    }
}

std::shared_ptr<HostBlock> Staging::take(For purpose, uint64_t bytes) {
    const bool large = bytes > kSmall;
    auto &list = free_[purpose == For::download][large];
    std::unique_ptr<HostBlock> block;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!list.empty()) {
            block = std::move(list.back());
            list.pop_back();
        }
    }
    if (!block) {
        device_.count_allocation();
        block = std::make_unique<HostBlock>();
        block->bytes = large ? kLarge : kSmall;
        block->tensor = device_.memory().make_host_tensor(block->bytes, purpose == For::download);
        block->buffer = buffer_of(*block->tensor);
        block->data = static_cast<uint8_t *>(block->tensor->rawData());
    }
    block->used = 0;
    auto give_back = [this, &list, large](HostBlock *returned) {
        std::unique_ptr<HostBlock> owned(returned);
        std::lock_guard<std::mutex> lock(mutex_);
        if (list.size() < kSpare[large]) {
            list.push_back(std::move(owned));
        }
    };
    return std::shared_ptr<HostBlock>(block.release(), give_back);
}

} // namespace kpx
