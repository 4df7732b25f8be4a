// Captures and replays: what runs, when, how often, and what it costs.
#include "shaders.hpp"
#include "test.hpp"

static constexpr uint32_t kWords = 1000;

static std::vector<uint32_t> filled(uint32_t value) {
    return std::vector<uint32_t>(kWords, value);
}

TEST(nothing_runs_until_it_is_replayed) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage x = new_storage(device, kWords * 4);
    upload(stream, x, filled(5));
    begin_capture(stream);
    for (int i = 0; i < 3; i++) {
        add_one(stream, add, x, kWords);
    }
    Region region = end_capture(stream);
    CHECK(download(stream, x, kWords) == filled(5));
    for (uint32_t i = 1; i <= 10; i++) {
        replay(stream, region);
        CHECK(download(stream, x, kWords) == filled(5 + 3 * i));
    }
    const kpx_region_stats stats = stats_of(region);
    CHECK(stats.ops == 3 && stats.fused_ops == 3 && stats.dispatches == 3 && stats.barriers == 3);
    CHECK(stats.descriptor_writes == 3 && stats.recorded_commands > 3 && stats.record_ns > 0);
    CHECK(stats.transient_bytes == 0 && stats.transient_bytes_unplanned == 0);
}

TEST(a_replay_writes_records_and_allocates_nothing) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage x = new_storage(device, kWords * 4);
    upload(stream, x, filled(0));
    begin_capture(stream);
    add_one(stream, add, x, kWords);
    add_one(stream, add, x, kWords);
    Region region = end_capture(stream);
    const kpx_stream_stats before = stats_of(stream);
    const uint64_t allocations = stats_of(device).allocations;
    uint64_t value = 0;
    for (int i = 0; i < 20; i++) {
        value = replay(stream, region, 5);
    }
    wait(stream, value);
    const kpx_stream_stats after = stats_of(stream);
    CHECK(stats_of(device).allocations == allocations);
    CHECK(after.descriptor_writes == before.descriptor_writes);
    CHECK(after.recorded_commands == before.recorded_commands);
    CHECK(after.submits == before.submits + 20 && after.replays == 100);
    CHECK(after.dispatches == before.dispatches + 200 && after.barriers == before.barriers + 200);
    CHECK(download(stream, x, kWords) == filled(200));
}

TEST(many_replays_may_be_in_flight) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage x = new_storage(device, kWords * 4), sum = new_storage(device, kWords * 4);
    upload(stream, x, filled(1));
    upload(stream, sum, filled(0));
    begin_capture(stream);
    add_one(stream, add, x, kWords); // each replay needs the result of the one before
    add_words(stream, x, sum, sum, kWords);
    Region region = end_capture(stream);
    for (int i = 0; i < 100; i++) {
        replay(stream, region, 1 + i % 3);
    }
    const uint32_t n = 199; // 34 * 1 + 33 * 2 + 33 * 3
    CHECK(download(stream, x, kWords) == filled(1 + n));
    CHECK(download(stream, sum, kWords) == filled(n * (n + 1) / 2 + n));
}

TEST(pending_work_goes_into_the_same_submission) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4),
              triple = new_algorithm(device, spirv_add_one, 1, {3}, 4);
    Storage x = new_storage(device, kWords * 4);
    upload(stream, x, filled(1));
    begin_capture(stream);
    add_one(stream, triple, x, kWords);
    Region region = end_capture(stream);
    flush(stream);
    const uint64_t submits = stats_of(stream).submits;
    add_one(stream, add, x, kWords);
    const uint64_t value = replay(stream, region, 2);
    add_one(stream, add, x, kWords);
    CHECK(stats_of(stream).submits == submits + 1 && flush(stream) == value + 1);
    CHECK(download(stream, x, kWords) == filled((2 * 3 + 1) * 3 + 2));
}

TEST(ordinary_work_passes_a_capture) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device), other = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);
    upload(other, y, filled(40));
    upload(stream, x, filled(1));
    add_one(stream, add, x, kWords);
    begin_capture(stream);
    add_words(stream, x, y, y, kWords);
    REQUIRE_OK(kpx_stream_depend(stream.get(), other.get(), flush(other), &err));
    CHECK(download(stream, x, kWords) == filled(2)); // earlier work has run
    upload(stream, x, filled(7));                    // before the region, although it was appended later
    flush(stream);
    CHECK(download(stream, x, kWords) == filled(7) && download(stream, y, kWords) == filled(40));
    upload(stream, x, filled(8)); // submitted with the end of the capture
    Region region = end_capture(stream);
    replay(stream, region);
    CHECK(download(stream, y, kWords) == filled(48));
}

TEST(an_op_that_cannot_be_captured_leaves_the_capture_whole) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, kWords * 4);
    upload(stream, x, filled(1));
    begin_capture(stream);
    add_words(stream, x, x, x, kWords);
    const uint32_t kind = 1000;
    const kpx_array words = words_of(x, kWords, KPX_READ);
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "binary", {words, words, words}, &kind, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "binary", {words}, &kind, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "no such op", {words}, nullptr, 0, &err));
    add_words(stream, x, x, x, kWords);
    Region region = end_capture(stream);
    replay(stream, region);
    CHECK(stats_of(region).ops == 2 && download(stream, x, kWords) == filled(4));
}

TEST(captures_can_be_dropped) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage x = new_storage(device, kWords * 4);
    kpx_capture_abort(stream.get()); // no capture is under way
    begin_capture(stream);
    add_one(stream, add, x, kWords);
    upload(stream, x, filled(3));
    kpx_capture_abort(stream.get());
    add_one(stream, add, x, kWords);
    CHECK(download(stream, x, kWords) == filled(4));
    begin_capture(stream);
    add_one(stream, add, x, kWords);
    stream.reset(); // in the middle of it
    x.reset();
    add.reset();
    CHECK(stats_of(device).live_tensors == 0);
}

TEST(calls_in_the_wrong_order_are_refused) {
    kpx_error err{};
    Device device = open_device(), second = open_device();
    Stream stream = new_stream(device), foreign = new_stream(second);
    kpx_region *none = nullptr;
    uint64_t value = 0;
    REQUIRE_CODE(KPX_INVALID, kpx_capture_end(stream.get(), &none, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_replay(stream.get(), nullptr, 1, UINT64_MAX, &value, &err));
    begin_capture(stream);
    Region empty = end_capture(stream);
    wait(stream, replay(stream, empty, 3)); // nothing to do, but valid
    CHECK(stats_of(empty).dispatches == 0);
    for (uint32_t times : {0, KPX_MOST_REPLAYS + 1}) {
        REQUIRE_CODE(KPX_INVALID, kpx_replay(stream.get(), empty.get(), times, UINT64_MAX, &value, &err));
    }
    REQUIRE_CODE(KPX_INVALID, kpx_replay(foreign.get(), empty.get(), 1, UINT64_MAX, &value, &err));
    begin_capture(stream);
    REQUIRE_CODE(KPX_INVALID, kpx_capture_begin(stream.get(), &err));
    REQUIRE_CODE(KPX_INVALID, kpx_replay(stream.get(), empty.get(), 1, UINT64_MAX, &value, &err));
    end_capture(stream);
    REQUIRE_CODE(KPX_INVALID, kpx_capture_end(stream.get(), &none, &err));
}

TEST(regions_may_go_while_they_run) {
    Device device = open_device();
    for (int round = 0; round < 5; round++) {
        Stream stream = new_stream(device);
        Algorithm spin = new_algorithm(device, spirv_spin, 1, {}, 4);
        Storage x = new_storage(device, kWords * 4);
        upload(stream, x, filled(1));
        begin_capture(stream);
        kpx_error err{};
        const kpx_array array = words_of(x, kWords, KPX_READ_WRITE);
        const uint32_t grid[3] = {kWords / 64, 1, 1}, rounds = 60000;
        REQUIRE_OK(kpx_dispatch(stream.get(), spin.get(), &array, 1, grid, &rounds, 4, &err));
        Region region = end_capture(stream);
        replay(stream, region, 4);
        replay(stream, region, 4);
        region.reset();
        x.reset();
        spin.reset();
        if (round % 2 == 0) {
            stream.reset();
        }
    }
    CHECK(stats_of(device).live_tensors == 0);
}

TEST(two_streams_take_turns_with_a_region) {
    kpx_error err{};
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device);
    Algorithm triple = new_algorithm(device, spirv_add_one, 1, {3}, 4);
    Storage x = new_storage(device, kWords * 4);
    upload(a, x, filled(1));
    begin_capture(a);
    add_one(a, triple, x, kWords);
    Region region = end_capture(a);
    uint32_t expected = 1;
    for (int i = 0; i < 30; i++) {
        REQUIRE_OK(kpx_stream_depend(b.get(), a.get(), replay(a, region, 2), &err));
        REQUIRE_OK(kpx_stream_depend(a.get(), b.get(), replay(b, region), &err));
        for (int k = 0; k < 3; k++) {
            expected = expected * 3 + 1;
        }
    }
    CHECK(download(a, x, kWords) == filled(expected));
}

TEST(the_host_sees_what_a_region_writes_into_mapped_memory) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    kpx_tensor *handle = nullptr;
    void *memory = nullptr;
    REQUIRE_OK(kpx_tensor_create_mapped(device.get(), 8, &handle, &memory, &err));
    Storage mapped(handle);
    auto *words = static_cast<volatile uint32_t *>(memory);
    CHECK(words[0] == 0 && words[1] == 0);
    begin_capture(stream);
    add_one(stream, add, mapped, 2);
    Region region = end_capture(stream);
    words[1] = 100;
    for (uint32_t i = 1; i <= 10; i++) {
        wait(stream, replay(stream, region));
        CHECK(words[0] == i && words[1] == 100 + i);
    }
    add_one(stream, add, mapped, 1); // eager work as well
    wait(stream, flush(stream));
    CHECK(words[0] == 11);
    CHECK((download(stream, mapped, 2) == std::vector<uint32_t>{11, 110}));
    mapped.reset();
    CHECK(stats_of(device).live_tensors == 0);
    REQUIRE_CODE(KPX_TOO_LARGE, kpx_tensor_create_mapped(device.get(), uint64_t(1) << 40, &handle, &memory, &err));
}
