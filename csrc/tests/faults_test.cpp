// Drivers that fail: every Vulkan call whose result Kompute drops, and a lost
// device. The calls are made to fail in the dispatcher, which the shim owns.
#include <atomic>
#include <thread>

#include "failing.hpp"
#include "failing_memory.hpp"
#include "shaders.hpp"
#include "test.hpp"

namespace {

VkResult no_buffer(VkDevice, const VkBufferCreateInfo *, const VkAllocationCallbacks *, VkBuffer *) {
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}
VkResult no_memory(VkDevice, const VkMemoryAllocateInfo *, const VkAllocationCallbacks *, VkDeviceMemory *) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
PFN_vkAllocateMemory allocate;
uint64_t refused; // allocations that will still succeed
VkResult no_memory_at_first(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *callbacks,
                            VkDeviceMemory *out) {
    if (refused > 0) {
        refused--;
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    return allocate(device, info, callbacks, out);
}
VkResult no_bind(VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
VkResult no_map(VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkMemoryMapFlags, void **) {
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}
VkResult no_pool(VkDevice, const VkCommandPoolCreateInfo *, const VkAllocationCallbacks *, VkCommandPool *) {
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}
VkResult no_commands(VkDevice, const VkCommandBufferAllocateInfo *, VkCommandBuffer *) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
VkResult no_begin(VkCommandBuffer, const VkCommandBufferBeginInfo *) {
    return VK_ERROR_OUT_OF_HOST_MEMORY;
}
VkResult no_pipeline(VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *,
                     const VkAllocationCallbacks *, VkPipeline *) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
PFN_vkCreateDescriptorSetLayout create_set_layout;
std::atomic<int> layouts_refused;
VkResult no_layout_at_first(VkDevice device, const VkDescriptorSetLayoutCreateInfo *info,
                            const VkAllocationCallbacks *callbacks, VkDescriptorSetLayout *out) {
    if (layouts_refused.fetch_sub(1) > 0) {
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    return create_set_layout(device, info, callbacks, out);
}
VkResult unknown_pipeline(VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *,
                          const VkAllocationCallbacks *, VkPipeline *) {
    return VK_ERROR_UNKNOWN;
}
VkResult no_sets(VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *) {
    return VK_ERROR_OUT_OF_POOL_MEMORY;
}
VkResult no_submit(VkQueue, uint32_t, const VkSubmitInfo *, VkFence) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}
VkResult lost_submit(VkQueue, uint32_t, const VkSubmitInfo *, VkFence) {
    return VK_ERROR_DEVICE_LOST;
}

constexpr uint32_t kWords = 4096;

} // namespace

TEST(storage_that_the_driver_refuses_is_out_of_memory) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    const uint64_t bytes = uint64_t(20) << 20;
    Storage large = new_storage(device, bytes), small = new_storage(device, 16);
    write_bytes(stream, large, 0, nullptr, bytes);
    write_bytes(stream, small, 0, nullptr, 16);
    {
        FAILING(vkCreateBuffer, no_buffer);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), large.get(), &err));
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), small.get(), &err));
    }
    {
        FAILING(vkAllocateMemory, no_memory);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), large.get(), &err));
        CHECK(err.requested == bytes);
    }
    {
        FAILING(vkBindBufferMemory, no_bind);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), large.get(), &err));
    }
    CHECK(stats_of(device).reserved_bytes == 0 && stats_of(stream).uploads == 0);
    require_usable(device, stream);
}

TEST(staging_that_the_driver_refuses_is_out_of_memory) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 64), made = new_storage(device, 64);
    write_bytes(stream, buffer, 0, "hello", 5);
    kpx_read *refused_read = nullptr;
    {
        FAILING(vkAllocateMemory, no_memory);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), buffer.get(), &err));
    }
    {
        FAILING(vkMapMemory, no_map);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), buffer.get(), &err));
    }
    add_words(stream, buffer, buffer, made, 16);
    {
        FAILING(vkAllocateMemory, no_memory);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY,
                     kpx_read_create(made.get(), stream.get(), KPX_READ_SOON, 0, 64, &refused_read, &err));
    }
    CHECK(download(stream, made, 1)[0] == 2 * 0x6c6c6568u); // "hell", little-endian
    require_usable(device, stream);
}

// Freed memory that was kept goes back to the driver before host memory is refused.
TEST(kept_memory_makes_room_for_host_memory) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    allocate = reinterpret_cast<PFN_vkAllocateMemory>(kpx::vulkan_instance().getProcAddr("vkAllocateMemory"));
    FAILING(vkAllocateMemory, no_memory_at_first);
    const Storage buffer = new_storage(device, 64);
    add_words(stream, buffer, buffer, buffer, 16); // has device memory, but no staging memory
    const uint64_t least = stats_of(device).reserved_bytes;
    for (int step = 0; step < 2; step++) {
        {
            const Storage freed = new_storage(device, uint64_t(20) << 20);
            kpx_array words = words_of(freed, 1, KPX_READ_WRITE);
            const uint32_t unused = 0;
            REQUIRE_OK(append_op(stream, "copy", {words, words}, &unused, 4, &err));
            wait(stream, flush(stream));
        }
        CHECK(stats_of(device).reserved_bytes > least);
        refused = 1;
        if (step == 0) {
            upload(stream, buffer, {5});
        } else {
            void *memory = nullptr;
            kpx_tensor *mapped = nullptr;
            REQUIRE_OK(kpx_tensor_create_mapped(device.get(), 64, &mapped, &memory, &err));
            kpx_tensor_destroy(mapped);
        }
        CHECK(refused == 0 && stats_of(device).reserved_bytes == least);
    }
}

TEST(recording_that_the_driver_refuses_loses_only_that_work) {
    kpx_error err{};
    kpx_device_options options{};
    options.masked = "coopmat"; // a check of which leaves command buffers
    Device device = open_device(options);
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 64);
    uint64_t value = 0;
    auto flush_fails = [&] {
        upload(stream, buffer, {1});
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(stream.get(), UINT64_MAX, &value, &err));
    };
    {
        FAILING(vkCreateCommandPool, no_pool);
        flush_fails();
    }
    {
        FAILING(vkAllocateCommandBuffers, no_commands);
        flush_fails();
    }
    {
        FAILING(vkBeginCommandBuffer, no_begin);
        flush_fails();
    }
    {
        FAILING(vkAllocateDescriptorSets, no_sets);
        flush_fails();
    }
    {
        FAILING(vkQueueSubmit, no_submit);
        flush_fails();
    }
    CHECK(flush(stream) == 0);
    require_usable(device, stream);
}

TEST(pipelines_that_the_driver_refuses_are_reported) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    kpx_algorithm *algorithm = nullptr;
    {
        FAILING(vkCreateComputePipelines, no_pipeline);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_algorithm_create(device.get(), spirv_add_one.data(), spirv_add_one.size(),
                                                             1, nullptr, 0, 4, 0, &algorithm, &err));
    }
    CHECK(algorithm == nullptr);
    require_usable(device, stream);
}

// No other kernel copies to and from the host, and no CPU can do it instead: it is an error of the driver, and the next
// call tries again.
TEST(the_pipeline_of_copies_is_made_again) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    void *memory = nullptr;
    kpx_tensor *handle = nullptr;
    REQUIRE_OK(kpx_tensor_create_mapped(device.get(), 64, &handle, &memory, &err));
    const Storage mapped(handle), plain = new_storage(device, 64);
    const kpx_array view = words_of(mapped, 1, KPX_WRITE);
    const uint32_t seven = 7;
    write_bytes(stream, plain, 0, "abcd", 4);
    {
        FAILING(vkCreateComputePipelines, unknown_pipeline);
        REQUIRE_CODE(KPX_DRIVER, kpx_tensor_write(&view, stream.get(), &seven, 4, &err));
        REQUIRE_CODE(KPX_DRIVER, kpx_upload(stream.get(), plain.get(), &err));
    }
    CHECK(download(stream, mapped, 1)[0] == 0);
    REQUIRE_OK(kpx_tensor_write(&view, stream.get(), &seven, 4, &err));
    REQUIRE_OK(kpx_upload(stream.get(), plain.get(), &err));
    CHECK(download(stream, mapped, 1)[0] == 7 && stats_of(device).refusals == 0);
}

// The first layout of each number of bindings, while another thread makes and frees tensors: what was refused works the
// next time, in a window, in a capture and in its replays, and nothing of the refused work is left.
TEST(set_layouts_that_the_driver_refuses_are_made_again) {
    kpx_error err{};
    create_set_layout = reinterpret_cast<PFN_vkCreateDescriptorSetLayout>(
        kpx::vulkan_instance().getProcAddr("vkCreateDescriptorSetLayout"));
    FAILING(vkCreateDescriptorSetLayout, no_layout_at_first);
    for (int round = 0; round < 4; round++) {
        Device device = open_device();
        Stream stream = new_stream(device);
        const std::jthread other([&](const std::stop_token &stop) {
            while (!stop.stop_requested()) {
                const Storage gone = new_storage(device, 64 * 1024);
            }
        });
        Storage a = new_storage(device, 64), sum = new_storage(device, 64);
        write_bytes(stream, a, 0, "abcd", 4);
        layouts_refused = 1;
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), a.get(), &err));
        wait(stream, flush(stream));
        REQUIRE_OK(kpx_upload(stream.get(), a.get(), &err));
        const auto add = [&] {
            const uint32_t addition = 0;
            return append_op(stream, "binary",
                             {words_of(a, 1, KPX_READ), words_of(a, 1, KPX_READ), words_of(sum, 1, KPX_WRITE)},
                             &addition, 4, &err);
        };
        layouts_refused = 1;
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, add());
        if (round % 2 == 1) {
            REQUIRE_OK(add());
        }
        flush(stream);
        begin_capture(stream);
        REQUIRE_OK(add());
        const Region region = end_capture(stream);
        replay(stream, region, 3);
        CHECK(download(stream, sum, 1)[0] == 2 * 0x64636261u);
    }
}

TEST(a_lost_device_wakes_waiters_and_answers_so_ever_after) {
    kpx_error err{};
    Device device = open_device();
    Stream busy = new_stream(device), other = new_stream(device);
    Algorithm spin = new_algorithm(device, spirv_spin, 1, {}, 4);
    Storage buffer = new_storage(device, kWords * 4), apart = new_storage(device, 4);
    const kpx_array array = words_of(buffer, kWords, KPX_READ_WRITE);
    const uint32_t grid[3] = {kWords / 64, 1, 1}, rounds = 1;
    kpx_gate *gate = nullptr; // so that no device is too fast for this test
    REQUIRE_OK(kpx_stream_hold(busy.get(), &gate, &err));
    REQUIRE_OK(kpx_dispatch(busy.get(), spin.get(), &array, 1, grid, &rounds, 4, &err));
    uint64_t value = flush(busy), unused = 0;
    kpx_error waited{};
    std::thread waiter([&] { kpx_wait(busy.get(), value, UINT64_MAX, &waited); });
    upload(other, apart, {1});
    {
        FAILING(vkQueueSubmit, lost_submit);
        REQUIRE_CODE(KPX_DEVICE_LOST, kpx_flush(other.get(), UINT64_MAX, &unused, &err));
    }
    waiter.join();
    CHECK(waited.code == KPX_DEVICE_LOST && waited.message[0] != 0);

    kpx_read *unmade = nullptr;
    kpx_tensor *fresh = nullptr;
    kpx_stream *stream = nullptr;
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_flush(busy.get(), UINT64_MAX, &unused, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_wait(busy.get(), value, 0, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_upload(other.get(), buffer.get(), &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_tensor_write(&array, other.get(), nullptr, 0, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_read_create(buffer.get(), other.get(), KPX_READ_SOON, 0, 4, &unmade, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_dispatch(other.get(), spin.get(), &array, 1, grid, &rounds, 4, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_tensor_create(device.get(), 16, &fresh, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_stream_create(device.get(), KPX_STREAM_COMPUTE, &stream, &err));
    kpx_gate_open(gate);
    // and another device is not affected
    Device second = open_device();
    require_usable(second, new_stream(second));
}

// If the driver refuses work that a gate held back, there is no caller to report it to.
TEST(held_work_that_the_driver_refuses_loses_the_device) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device), idle = new_stream(device);
    Storage buffer = new_storage(device, kWords * 4);
    kpx_gate *gate = nullptr, *unopened = nullptr;
    REQUIRE_OK(kpx_stream_hold(stream.get(), &gate, &err));
    upload(stream, buffer, {1});
    const uint64_t value = flush(stream);
    REQUIRE_OK(kpx_stream_hold(idle.get(), &unopened, &err));
    upload(idle, buffer, {2});
    const uint64_t never = flush(idle);
    {
        FAILING(vkQueueSubmit, no_submit);
        kpx_gate_open(gate);
    }
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_wait(stream.get(), value, UINT64_MAX, &err));
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_wait(idle.get(), never, UINT64_MAX, &err));
    idle.reset(); // does not wait for a gate
    kpx_gate_open(unopened);
}

// Nor if there is no host memory for it.
TEST(a_gate_that_cannot_open_loses_the_device) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, kWords * 4);
    kpx_gate *gate = nullptr;
    REQUIRE_OK(kpx_stream_hold(stream.get(), &gate, &err));
    upload(stream, buffer, {1});
    const uint64_t value = flush(stream);
    {
        const FailingMemory memory(0);
        kpx_gate_open(gate);
        CHECK(FailingMemory::failed());
    }
    REQUIRE_CODE(KPX_DEVICE_LOST, kpx_wait(stream.get(), value, 10'000'000'000, &err));
}
