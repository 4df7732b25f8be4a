#include "timeline.hpp"

#include <algorithm>

#include "device.hpp"
#include "error.hpp"

namespace kpx {

Timeline::Timeline(std::shared_ptr<Device> device) : device_(std::move(device)) {
    const vk::SemaphoreTypeCreateInfo type(vk::SemaphoreType::eTimeline, 0);
    const vk::SemaphoreCreateInfo info({}, &type);
    device_->check(device_->handle().createSemaphore(&info, nullptr, &semaphore_), "vkCreateSemaphore");
}

Timeline::~Timeline() { device_->handle().destroySemaphore(semaphore_); }

uint64_t Timeline::completed() const {
    uint64_t value = 0;
    device_->check(device_->handle().getSemaphoreCounterValue(semaphore_, &value), "vkGetSemaphoreCounterValue");
    return value;
}

// Waits in slices, so that a device which another thread found lost wakes this one.
void Timeline::wait(uint64_t value, uint64_t timeout_ns) const {
    constexpr uint64_t kSlice = 100'000'000;
    const vk::SemaphoreWaitInfo info({}, semaphore_, value);
    for (;;) {
        device_->check_alive();
        const uint64_t slice = std::min(timeout_ns, kSlice);
        const vk::Result result = device_->handle().waitSemaphores(&info, slice);
        if (result != vk::Result::eTimeout) {
            device_->check(result, "vkWaitSemaphores");
            return;
        }
        if (timeout_ns != UINT64_MAX) {
            timeout_ns -= slice;
        }
        if (timeout_ns == 0) {
            fail(KPX_TIMEOUT, "the work was not done in time");
        }
    }
}

} // namespace kpx
