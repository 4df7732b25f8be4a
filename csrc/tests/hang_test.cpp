// Devices that hang: the driver accepts work and never does it.
#include <atomic>
#include <memory>
#include <thread>

#include "abi/handles.hpp"
#include "failing.hpp"
#include "runtime/device.hpp"
#include "shaders.hpp"
#include "stream/watchdog.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 4096;

// What the device keeps for work that never ends can be freed at the end, so that the leak checker needs no exceptions.
struct FreesWhatIsKept {
    ~FreesWhatIsKept() { kpx::Device::free_kept(); }
};

VkResult swallow(VkQueue, uint32_t, const VkSubmitInfo *, VkFence) {
    return VK_SUCCESS;
}
VkResult no_wait(VkDevice, const VkSemaphoreWaitInfo *, uint64_t) {
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}
VkResult no_queue_wait(VkQueue) {
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}

} // namespace

// A call that waits detects that a device hangs, and its error names the work.
TEST(a_device_that_hangs_keeps_nobody) {
    const FreesWhatIsKept last;
    kpx_error err{};
    kpx_device_options options{};
    options.hang_ns = 50'000'000;
    Device device = open_device(options);
    Stream stream = new_stream(device), other = new_stream(device);
    Storage a = new_storage(device, kWords * 4), b = new_storage(device, kWords * 4);
    upload(stream, a, std::vector<uint32_t>(kWords, 1));
    wait(stream, flush(stream));
    begin_capture(stream);
    add_words(stream, a, a, b, kWords);
    const Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    const uint32_t grid[3] = {kWords / 64, 1, 1};
    const kpx_array array = words_of(b, kWords, KPX_READ_WRITE);
    REQUIRE_OK(kpx_dispatch(stream.get(), add.get(), &array, 1, grid, &kWords, 4, &err));
    Region region = end_capture(stream);
    CHECK(kpx_device_hang(device.get())[0] == 0);
    {
        FAILING(vkQueueSubmit, swallow);
        const uint64_t value = replay(stream, region, 3);
        REQUIRE_CODE(KPX_TIMEOUT, kpx_wait(stream.get(), value, 1000, &err));
        REQUIRE_CODE(KPX_DEVICE_LOST, kpx_wait(stream.get(), value, UINT64_MAX, &err));
    }
    const std::string hang = kpx_device_hang(device.get());
    CHECK(hang.find("stream 0, submission 2, 3 times a region of 2 dispatches: 1 binary, 1 custom") !=
          std::string::npos);
    CHECK(hang == err.message);
    kpx_read *unmade = nullptr;
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_read_create(b.get(), other.get(), KPX_READ_SOON, 0, 4, &unmade, &err));
    region.reset();
    stream.reset();
    Device second = open_device();
    require_usable(second, new_stream(second));
}

// What work uses is kept if the driver cannot even say whether the work has ended.
TEST(a_queue_that_cannot_be_waited_for_counts_as_hanging) {
    const FreesWhatIsKept last;
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device), other = new_stream(device);
    Storage x = new_storage(device, 64);
    upload(stream, x, {1});
    flush(stream);
    VULKAN_HPP_DEFAULT_DISPATCHER.vkDeviceWaitIdle(kpx::device_of(device.get())->handle()); // so that it can be freed
    {
        FAILING(vkWaitSemaphores, no_wait);
        FAILING(vkQueueWaitIdle, no_queue_wait);
        stream.reset();
    }
    CHECK(std::string(kpx_device_hang(device.get())).find("cannot wait") != std::string::npos);
    uint64_t unused = 0;
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_flush(other.get(), UINT64_MAX, &unused, &err));
}

// Threads that look for a hang at once find none, whichever of them reads the clock first.
TEST(a_device_that_works_does_not_hang) {
    const FreesWhatIsKept last;
    kpx_device_options options{};
    options.hang_ns = 50'000'000; // for the end
    Device device = open_device(options);
    Stream stream = new_stream(device);
    Storage x = new_storage(device, 64);
    upload(stream, x, {1});
    wait(stream, flush(stream));
    FAILING(vkQueueSubmit, swallow); // work that has not ended
    upload(stream, x, {2});
    flush(stream);
    constexpr int kThreads = 3, kRounds = 8000;
    std::vector<std::unique_ptr<kpx::Watchdog>> watchdogs;
    for (int round = 0; round < kRounds; round++) {
        watchdogs.push_back(std::make_unique<kpx::Watchdog>(*kpx::device_of(device.get()), 3'600'000'000'000));
    }
    std::atomic<int> arrived{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
        threads.emplace_back([&] {
            for (int round = 0; round < kRounds; round++) {
                arrived++;
                while (arrived < (round + 1) * kThreads) {
                    std::this_thread::yield();
                }
                watchdogs[round]->look();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(kpx_device_hang(device.get())[0] == 0);
}

// A stream with much work in flight returns at once if it is told not to wait.
TEST(a_full_stream_waits_no_longer_than_it_may) {
    const FreesWhatIsKept last;
    kpx_error err{};
    kpx_device_options options{};
    options.hang_ns = 50'000'000;
    Device device = open_device(options);
    Stream stream = new_stream(device);
    Storage x = new_storage(device, 64);
    upload(stream, x, {1});
    wait(stream, flush(stream));
    begin_capture(stream);
    add_words(stream, x, x, x, 16);
    const Region region = end_capture(stream);
    FAILING(vkQueueSubmit, swallow);
    uint64_t value = 0, replays = 0;
    kpx_result result = KPX_OK;
    for (; result == KPX_OK; replays++) {
        result = kpx_replay(stream.get(), region.get(), 1, 0, &value, &err);
    }
    CHECK(result == KPX_TIMEOUT && replays == 33 && stats_of(stream).replays == 32);
    REQUIRE_CODE(KPX_TIMEOUT, kpx_flush(stream.get(), 0, &value, &err));
    REQUIRE_CODE(KPX_TIMEOUT, kpx_wait_for_room(stream.get(), 1000, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_wait_for_room(stream.get(), UINT64_MAX, &err));
}
