// What a lowering needs is made while others may use the device's mutex.
#include <thread>

#include "abi/handles.hpp"
#include "failing.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "runtime/missing.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 64;
constexpr uint64_t kMany = uint64_t(64) << 10; // bytes of counters that need a block of their own

std::mutex *watched; // the device's mutex
int calls, held;     // of the driver's function, and with the mutex held

void look() {
    std::thread([] {
        calls++;
        if (watched->try_lock()) {
            watched->unlock();
        } else {
            held++;
        }
    }).join();
}

PFN_vkCreateComputePipelines create;
VkResult create_and_look(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
                         const VkAllocationCallbacks *callbacks, VkPipeline *out) {
    look();
    return create(device, cache, n, infos, callbacks, out);
}

struct Fixture {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);

    Fixture() {
        upload(stream, x, std::vector<uint32_t>(kWords, 3));
        watched = &device->object->mutex();
        calls = held = 0;
        create = VULKAN_HPP_DEFAULT_DISPATCHER.vkCreateComputePipelines;
    }
};

} // namespace

TEST(a_kernel_is_compiled_without_the_mutex) {
    Fixture f;
    FAILING(vkCreateComputePipelines, create_and_look);
    const uint64_t hits = stats_of(f.device).cache_hits, misses = stats_of(f.device).cache_misses;
    add_words(f.stream, f.x, f.x, f.y, kWords);
    CHECK(calls == 1 && held == 0);
    CHECK(stats_of(f.device).cache_hits == hits + 2 && stats_of(f.device).cache_misses == misses); // each operand once
    CHECK(download(f.stream, f.y, kWords) == std::vector<uint32_t>(kWords, 6));
}

TEST(a_captured_kernel_is_compiled_without_the_mutex) {
    Fixture f;
    FAILING(vkCreateComputePipelines, create_and_look);
    begin_capture(f.stream);
    add_words(f.stream, f.x, f.x, f.y, kWords);
    const Region region = end_capture(f.stream);
    CHECK(calls == 1 && held == 0);
    replay(f.stream, region);
    CHECK(download(f.stream, f.y, kWords) == std::vector<uint32_t>(kWords, 6));
}

// Counters are made by work of the device, which may have much to do before it.
TEST(counters_are_reported_missing_instead_of_waiting_for_the_device) {
    const Device device = open_device();
    kpx::Memory &memory = device->object->memory();
    bool missing = false;
    try {
        memory.allocate_counters(kMany, kpx::Making::without_mutex);
    } catch (const kpx::Missing &what) {
        missing = true;
        what.make();
    }
    CHECK(missing);
    CHECK(memory.allocate_counters(kMany, kpx::Making::without_mutex) != nullptr);
}

TEST(counters_stay_within_the_budget) {
    constexpr uint64_t kBudget = uint64_t(4) << 20;
    const Device device = open_device(kBudget);
    const Stream stream = new_stream(device);
    Storage x = new_storage(device, kBudget);
    upload(stream, x, {1});
    kpx::Memory &memory = device->object->memory();
    kpx_result code = KPX_OK;
    try {
        memory.allocate_counters(kMany, kpx::Making::now);
    } catch (const kpx::Error &e) {
        code = e.code;
    }
    CHECK(code == KPX_OUT_OF_MEMORY && memory.reserved() <= kBudget);
    wait(stream, flush(stream));
    x.reset(); // its memory is kept, and given back when it is short
    CHECK(memory.reserved() == kBudget);
    CHECK(memory.allocate_counters(kMany, kpx::Making::now) != nullptr);
}
