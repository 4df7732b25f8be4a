// Repeated windows are submitted again, not recorded.
#include "record/recording_cache.hpp"

#include "abi/handles.hpp"
#include "record/transfer.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "shaders.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 256;

struct Work {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage buffer = new_storage(device, kWords * 4);

    // Reads the result, which must be value + 1 everywhere.
    std::vector<uint32_t> run(uint32_t value) {
        upload(stream, buffer, std::vector<uint32_t>(kWords, value));
        add_one(stream, add, buffer, kWords);
        wait(stream, flush(stream));
        return download(stream, buffer, kWords);
    }
};

} // namespace

TEST(windows_that_come_again_are_not_recorded) {
    Work work;
    CHECK(work.run(7) == std::vector<uint32_t>(kWords, 8));
    const kpx_stream_stats first = stats_of(work.stream);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK(work.run(i) == std::vector<uint32_t>(kWords, i + 1)); // other data, but the same work
    }
    const kpx_stream_stats last = stats_of(work.stream);
    CHECK(last.recorded_commands == first.recorded_commands && last.descriptor_writes == first.descriptor_writes);
    CHECK(last.dispatches == 101 * first.dispatches && last.submits == 101 * first.submits);
}

TEST(windows_that_differ_are_recorded) {
    Work work;
    work.run(1);
    const uint64_t commands = stats_of(work.stream).recorded_commands;
    upload(work.stream, work.buffer, std::vector<uint32_t>(kWords, 1));
    add_one(work.stream, work.add, work.buffer, kWords / 2); // the same number of commands, another push constant
    wait(work.stream, flush(work.stream));
    CHECK(stats_of(work.stream).recorded_commands > commands);
    const std::vector<uint32_t> got = download(work.stream, work.buffer, kWords);
    CHECK(got[kWords / 2 - 1] == 2 && got[kWords / 2] == 1);
}

// A recording that is running is not submitted again: a second one is made.
TEST(windows_in_flight_are_recorded_once_more) {
    Work work;
    work.run(0);
    Algorithm spin = new_algorithm(work.device, spirv_spin, 1, {}, 4);
    const kpx_array array = words_of(work.buffer, kWords, KPX_READ_WRITE);
    const uint32_t grid[3] = {kWords / 64, 1, 1}, rounds = 1;
    kpx_error err{};
    for (int i = 0; i < 200; i++) {
        REQUIRE_OK(kpx_dispatch(work.stream.get(), spin.get(), &array, 1, grid, &rounds, 4, &err));
        add_one(work.stream, work.add, work.buffer, kWords);
        flush(work.stream);
    }
    uint32_t want = 1;
    for (int i = 0; i < 200; i++) {
        want = want * 1664525u + 1013904223u + 1;
    }
    CHECK(download(work.stream, work.buffer, kWords) == std::vector<uint32_t>(kWords, want));
}

// The handle of a destroyed pipeline may be reused for the next one.
TEST(recordings_of_destroyed_pipelines_are_not_used) {
    Work work;
    for (uint32_t i = 0; i < 20; i++) {
        work.add = new_algorithm(work.device, spirv_add_one, 1, {i + 1}, 4);
        CHECK(work.run(5) == std::vector<uint32_t>(kWords, 5 * (i + 1) + 1));
    }
}

// So may that of a buffer. The buffer of mapped memory is destroyed with it, and drivers give the next one the same
// handle.
TEST(recordings_of_destroyed_buffers_are_not_used) {
    Work work;
    kpx_error err{};
    for (uint32_t i = 0; i < 20; i++) {
        kpx_tensor *handle = nullptr;
        void *memory = nullptr;
        REQUIRE_OK(kpx_tensor_create_mapped(work.device.get(), kWords * 4, &handle, &memory, &err));
        const Storage mapped(handle);
        auto *words = static_cast<uint32_t *>(memory);
        words[kWords - 1] = i;
        const uint64_t before = stats_of(work.stream).recorded_commands;
        add_one(work.stream, work.add, mapped, kWords);
        wait(work.stream, flush(work.stream));
        CHECK(words[0] == 1 && words[kWords - 1] == i + 1);
        CHECK(stats_of(work.stream).recorded_commands > before);
    }
}

TEST(recordings_stay_when_other_objects_are_destroyed) {
    Work work;
    work.run(1);
    const uint64_t before = stats_of(work.stream).recorded_commands;
    for (uint32_t i = 0; i < 10; i++) {
        new_algorithm(work.device, spirv_add_one, 1, {i + 1}, 4);
        kpx_error err{};
        kpx_tensor *handle = nullptr;
        void *memory = nullptr;
        REQUIRE_OK(kpx_tensor_create_mapped(work.device.get(), 64, &handle, &memory, &err));
        kpx_tensor_destroy(handle);
        CHECK(work.run(i) == std::vector<uint32_t>(kWords, i + 1));
    }
    CHECK(stats_of(work.stream).recorded_commands == before);
}

// The same copy, except for one handle that belongs to another object, or for one range in a slab.
TEST(recordings_are_found_by_serial_numbers_and_ranges) {
    const Device opened = open_device();
    const std::shared_ptr<kpx::Device> device = kpx::device_of(opened.get());
    const std::shared_ptr<kpx::Buffer> from = device->memory().allocate(4096), to = device->memory().allocate(4096);
    kpx::RecordingCache cache;
    const kpx::Queue &queue = device->next_queue();
    const auto is_known = [&](const std::function<void(kpx::Use &)> &change, bool another_pipeline = false) {
        kpx::Program copy, program;
        kpx::append_transfer(*device, copy, {from->handle(), from->offset(), from, from.get()},
                             {to->handle(), to->offset(), to, to.get()}, 1024);
        const kpx::Node &node = copy.nodes()[0];
        program.use(copy.uses(node)[0]);
        program.use(copy.uses(node)[1]);
        change(program.all_uses()[1]);
        kpx::Pipeline pipeline{node.pipeline, node.layout};
        if (another_pipeline) {
            pipeline.handle = kpx::Numbered<vk::Pipeline>(pipeline.handle.handle);
        }
        program.dispatch(pipeline, node.kernel, copy.push(node), node.push_bytes, node.grid);
        bool known = false;
        cache.get(device, queue, program, known);
        return known;
    };
    const auto nothing = [](kpx::Use &) {};
    CHECK(!is_known(nothing));
    CHECK(is_known(nothing));
    CHECK(!is_known([](kpx::Use &use) { use.buffer = kpx::Numbered<vk::Buffer>(use.buffer.handle); }));
    CHECK(!is_known(nothing, true));
    CHECK(!is_known([](kpx::Use &use) { use.offset += 1024; }));
    CHECK(!is_known([](kpx::Use &use) { use.bytes -= 256; }));
    CHECK(!is_known([](kpx::Use &use) { use.access = KPX_READ; }));
    CHECK(is_known(nothing)); // none of them evicted it
}

// More windows than are kept, in rotation.
TEST(old_recordings_make_room) {
    Work work;
    std::vector<Storage> buffers;
    for (int i = 0; i < 80; i++) {
        buffers.push_back(new_storage(work.device, kWords * 4));
        upload(work.stream, buffers.back(), std::vector<uint32_t>(kWords, uint32_t(i)));
    }
    wait(work.stream, flush(work.stream));
    const uint64_t before = stats_of(work.device).allocations;
    for (int round = 0; round < 5; round++) {
        for (Storage &buffer : buffers) {
            add_one(work.stream, work.add, buffer, kWords);
            wait(work.stream, flush(work.stream));
        }
    }
    CHECK(stats_of(work.device).allocations - before < 150); // for 400 windows: pools are reused
    for (int i = 0; i < 80; i++) {
        CHECK(download(work.stream, buffers[size_t(i)], 1)[0] == uint32_t(i) + 5);
    }
}
