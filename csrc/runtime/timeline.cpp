#include "runtime/timeline.hpp"

#include <algorithm>

#include "abi/error.hpp"
#include "runtime/device.hpp"
#include "stream/watchdog.hpp"

namespace kpx {

Semaphores::~Semaphores() {
    for (const Entry &entry : free_) {
        device_.handle().destroySemaphore(entry.handle);
    }
}

Semaphores::Entry Semaphores::take() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!free_.empty()) {
            const Entry entry = free_.back();
            free_.pop_back();
            return entry;
        }
        if (free_.capacity() <= made_) {
            free_.reserve(2 * (made_ + 1));
        }
        made_++;
    }
    const vk::SemaphoreTypeCreateInfo type(vk::SemaphoreType::eTimeline, 0);
    const vk::SemaphoreCreateInfo info({}, &type);
    Entry made{{}, 0};
    const vk::Result result = device_.handle().createSemaphore(&info, nullptr, &made.handle);
    if (result != vk::Result::eSuccess) {
        std::lock_guard<std::mutex> lock(mutex_);
        made_--;
    }
    device_.check(result, "vkCreateSemaphore");
    return made;
}

void Semaphores::give_back(Entry entry) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(entry);
}

Timeline::Timeline(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const Semaphores::Entry entry = device_->semaphores().take();
    semaphore_ = entry.handle;
    base_ = entry.value;
}

Timeline::~Timeline() {
    device_->semaphores().give_back({semaphore_, base_ + submitted_});
}

uint64_t Timeline::completed() const {
    uint64_t value = 0;
    device_->check(device_->handle().getSemaphoreCounterValue(semaphore_, &value), "vkGetSemaphoreCounterValue");
    see(value > base_ ? value - base_ : 0);
    return seen_; // it never decreases, whatever the driver says
}

void Timeline::see(uint64_t value) const {
    uint64_t known = seen_;
    while (known < value && !seen_.compare_exchange_weak(known, value)) {
    }
}

// Waits in slices, so that it notices if another thread finds the device lost, and detects a device that hangs.
void Timeline::wait(uint64_t value, uint64_t timeout_ns) const {
    constexpr uint64_t kSlice = 100'000'000;
    const uint64_t target = semaphore_value(value);
    const vk::SemaphoreWaitInfo info({}, semaphore_, target);
    for (;;) {
        device_->check_alive();
        const uint64_t slice = std::min(timeout_ns, kSlice);
        const vk::Result result = device_->handle().waitSemaphores(&info, slice);
        if (result != vk::Result::eTimeout) {
            device_->check(result, "vkWaitSemaphores");
            see(value);
            return;
        }
        if (timeout_ns != UINT64_MAX) {
            timeout_ns -= slice;
        }
        device_->watchdog().look();
        if (timeout_ns == 0) {
            fail(KPX_TIMEOUT, "the work was not done in time");
        }
    }
}

} // namespace kpx
