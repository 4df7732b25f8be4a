// Work of the device itself.
#include <cstring>

#include "abi/handles.hpp"
#include "record/transfer.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "runtime/run_once.hpp"
#include "test.hpp"

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
