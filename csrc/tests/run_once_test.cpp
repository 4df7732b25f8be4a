// Work of the device itself.
#include <cstring>

#include "abi/handles.hpp"
#include "failing.hpp"
#include "record/transfer.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "runtime/run_once.hpp"
#include "test.hpp"

// If the wait fails, nothing is freed before the device is done.
TEST(work_of_the_device_is_done_before_it_is_freed) {
    static int waits, drains;
    const Device device = open_device();
    static const PFN_vkQueueWaitIdle drain = VULKAN_HPP_DEFAULT_DISPATCHER.vkQueueWaitIdle;
    kpx::Device &d = *device->object;
    constexpr uint64_t kBytes = 64;
    const std::shared_ptr<kpx::Buffer> to = d.memory().allocate(kBytes);
    kpx::Program program;
    kpx::append_transfer(d, program, {to->handle(), to->offset(), to, to.get()},
                         {to->handle(), to->offset(), to, to.get()}, kBytes);
    FAILING(vkWaitSemaphores, [](VkDevice, const VkSemaphoreWaitInfo *, uint64_t) -> VkResult {
        waits++;
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    });
    FAILING(vkQueueWaitIdle, [](VkQueue queue) -> VkResult {
        drains++;
        return drain(queue);
    });
    kpx_result code = KPX_OK;
    try {
        kpx::run_once(d, std::move(program), "a test");
    } catch (const kpx::Error &e) {
        code = e.code;
    }
    CHECK(code == KPX_OUT_OF_MEMORY && waits == 1 && drains == 1);
}

TEST(work_of_the_device_is_done_when_the_call_returns) {
    const Device device = open_device();
    kpx::Device &d = *device->object;
    constexpr uint64_t kBytes = 4096;
    const std::shared_ptr<kpx::Buffer> from = d.memory().allocate_mapped(kBytes),
                                       to = d.memory().allocate_mapped(kBytes);
    memset(from->mapped(), 0x5a, kBytes);
    memset(to->mapped(), 0xff, kBytes);
    kpx::Program program;
    kpx::append_transfer(d, program, {from->handle(), from->offset(), from, from.get()},
                         {to->handle(), to->offset(), to, to.get()}, kBytes);
    kpx::run_once(d, std::move(program), "a test");
    CHECK(memcmp(from->mapped(), to->mapped(), kBytes) == 0);
}
