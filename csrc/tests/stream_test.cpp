// Streams: values, waits, dependencies, threads, ends.
#include <atomic>
#include <thread>

#include "shaders.hpp"
#include "test.hpp"

static constexpr uint32_t kWords = 4096;

static void add_one(const Stream &stream, const Algorithm &algorithm, const Storage &buffer) {
    kpx_error err{};
    const kpx_array array = words_of(buffer, kWords, KPX_READ_WRITE);
    const uint32_t grid[3] = {kWords / 64, 1, 1};
    REQUIRE_OK(kpx_dispatch(stream.get(), algorithm.get(), &array, 1, grid, &kWords, 4, &err));
}

// Some tens of milliseconds or more of work.
static void spin(const Stream &stream, const Algorithm &algorithm, const Storage &buffer) {
    kpx_error err{};
    const kpx_array array = words_of(buffer, kWords, KPX_READ_WRITE);
    const uint32_t grid[3] = {kWords / 64, 1, 1}, rounds = 40000;
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(kpx_dispatch(stream.get(), algorithm.get(), &array, 1, grid, &rounds, 4, &err));
    }
}

TEST(values_rise_with_submissions) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, kWords * 4);
    CHECK(flush(stream) == 0); // nothing has been appended
    REQUIRE_OK(kpx_wait(stream.get(), 0, 0, &err));
    upload(stream, buffer, {1});
    const uint64_t first = flush(stream);
    CHECK(first > 0 && flush(stream) == first); // nothing new, so nothing is submitted
    upload(stream, buffer, {2});
    const uint64_t second = flush(stream);
    CHECK(second > first);
    REQUIRE_OK(kpx_wait(stream.get(), second, UINT64_MAX, &err));
    REQUIRE_OK(kpx_wait(stream.get(), first, 0, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_wait(stream.get(), second + 1, 0, &err));
    CHECK(stats_of(stream).submits == 2);
}

TEST(a_wait_can_time_out) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm algorithm = new_algorithm(device, spirv_spin, 1, {}, 4);
    Storage buffer = new_storage(device, kWords * 4);
    upload(stream, buffer, std::vector<uint32_t>(kWords, 1));
    spin(stream, algorithm, buffer);
    const uint64_t value = flush(stream);
    REQUIRE_CODE(KPX_TIMEOUT, kpx_wait(stream.get(), value, 1000, &err));
    REQUIRE_OK(kpx_wait(stream.get(), value, UINT64_MAX, &err)); // a timeout does no harm
}

TEST(streams_wait_for_each_other) {
    kpx_error err{};
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage buffer = new_storage(device, kWords * 4);
    upload(a, buffer, std::vector<uint32_t>(kWords, 0));
    for (int round = 0; round < 25; round++) {
        add_one(a, add, buffer);
        REQUIRE_OK(kpx_stream_depend(b.get(), a.get(), flush(a), &err));
        add_one(b, add, buffer);
        REQUIRE_OK(kpx_stream_depend(a.get(), b.get(), flush(b), &err));
    }
    CHECK(download(a, buffer, kWords) == std::vector<uint32_t>(kWords, 50));
}

TEST(a_dependency_passes_through_an_idle_stream) {
    kpx_error err{};
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device), c = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4), slow = new_algorithm(device, spirv_spin, 1, {}, 4);
    Storage buffer = new_storage(device, kWords * 4), other = new_storage(device, kWords * 4);
    upload(a, buffer, std::vector<uint32_t>(kWords, 7));
    upload(a, other, std::vector<uint32_t>(kWords, 7));
    spin(a, slow, other);
    add_one(a, add, buffer);
    REQUIRE_OK(kpx_stream_depend(b.get(), a.get(), flush(a), &err));
    REQUIRE_OK(kpx_stream_depend(c.get(), b.get(), flush(b), &err)); // b has no work of its own
    add_one(c, add, buffer);
    CHECK(download(c, buffer, 1)[0] == 9);
}

TEST(impossible_dependencies_are_refused) {
    kpx_error err{};
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device);
    Storage buffer = new_storage(device, 16);
    upload(a, buffer, {1});
    REQUIRE_CODE(KPX_INVALID, kpx_stream_depend(b.get(), a.get(), 1, &err)); // not submitted yet
    const uint64_t value = flush(a);
    REQUIRE_OK(kpx_stream_depend(a.get(), a.get(), value, &err)); // still in order
    REQUIRE_OK(kpx_stream_depend(b.get(), a.get(), 0, &err));
    CHECK(stats_of(b).submits == 0);
}

TEST(destroying_while_in_flight_is_safe) {
    Device device = open_device();
    for (int round = 0; round < 5; round++) {
        Stream stream = new_stream(device), waiting = new_stream(device);
        Algorithm algorithm = new_algorithm(device, spirv_spin, 1, {}, 4);
        Storage buffer = new_storage(device, kWords * 4);
        upload(stream, buffer, std::vector<uint32_t>(kWords, 1));
        spin(stream, algorithm, buffer);
        kpx_error err{};
        REQUIRE_OK(kpx_stream_depend(waiting.get(), stream.get(), flush(stream), &err));
        add_one(waiting, new_algorithm(device, spirv_add_one, 1, {1}, 4),
                buffer); // and the algorithm is submitted at once
        flush(waiting);
        spin(stream, algorithm, buffer); // it stays pending
        algorithm.reset();
        buffer.reset();
        stream.reset();
    }
    CHECK(stats_of(device).live_tensors == 0);
}

TEST(threads_have_streams_of_their_own) {
    Device device = open_device();
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 6; t++) {
        threads.emplace_back([&, t] {
            try {
                Stream stream = new_stream(device);
                for (uint32_t round = 0; round < 10; round++) {
                    Storage buffer = new_storage(device, kWords * 4);
                    upload(stream, buffer, std::vector<uint32_t>(kWords, t * 1000));
                    for (uint32_t i = 0; i <= round; i++) {
                        add_one(stream, add, buffer);
                    }
                    right += download(stream, buffer, kWords) == std::vector<uint32_t>(kWords, t * 1000 + round + 1);
                }
            } catch (const Failure &) {
                right = -1000;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(right == 60);
}

TEST(threads_may_share_a_stream) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage buffer = new_storage(device, kWords * 4);
    upload(stream, buffer, std::vector<uint32_t>(kWords, 0));
    std::atomic<bool> failed{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&] {
            try {
                kpx_error err{};
                for (int i = 0; i < 25; i++) {
                    add_one(stream, add, buffer);
                    REQUIRE_OK(kpx_wait(stream.get(), flush(stream), UINT64_MAX, &err));
                }
            } catch (const Failure &) {
                failed = true;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(!failed);
    CHECK(download(stream, buffer, kWords) == std::vector<uint32_t>(kWords, 100));
}

TEST(work_without_waits_does_not_pile_up) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage buffer = new_storage(device, kWords * 4);
    upload(stream, buffer, std::vector<uint32_t>(kWords, 0));
    for (uint32_t i = 0; i < 300; i++) {
        add_one(stream, add, buffer);
        flush(stream);
    }
    CHECK(download(stream, buffer, 1)[0] == 300);
}
