// Gates: work that the host holds back, and work that depends on it. Reads in flight.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "abi/handles.hpp"
#include "failing.hpp"
#include "runtime/device.hpp"
#include "shaders.hpp"
#include "stream/stream.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 1024;

kpx_gate *hold(const Stream &stream) {
    kpx_error err{};
    kpx_gate *gate = nullptr;
    REQUIRE_OK(kpx_stream_hold(stream.get(), &gate, &err));
    return gate;
}

bool reached(const Stream &stream, uint64_t value) {
    kpx_error err{};
    return kpx_wait(stream.get(), value, 0, &err) == KPX_OK;
}

struct Streams {
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device), c = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {2}, 4); // x = 2 x + 1
    Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);
};

} // namespace

TEST(a_gate_holds_back_what_comes_behind_it) {
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 1));
    const uint64_t before = flush(s.a);
    kpx_gate *gate = hold(s.a);
    add_one(s.a, s.add, s.x, kWords);
    const uint64_t behind = flush(s.a);
    CHECK(behind > before);
    wait(s.a, before);
    CHECK(!reached(s.a, behind));
    // Other streams run meanwhile, whichever queue they use.
    upload(s.b, s.y, std::vector<uint32_t>(kWords, 5));
    CHECK(download(s.b, s.y, kWords)[0] == 5 && download(s.c, s.y, kWords)[0] == 5);
    CHECK(!reached(s.a, behind));
    kpx_gate_open(gate);
    wait(s.a, behind);
    CHECK(download(s.a, s.x, kWords) == std::vector<uint32_t>(kWords, 3));
}

TEST(what_depends_on_held_work_is_held) {
    kpx_error err{};
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 1));
    kpx_gate *first = hold(s.a);
    add_one(s.a, s.add, s.x, kWords);
    REQUIRE_OK(kpx_stream_depend(s.b.get(), s.a.get(), flush(s.a), &err));
    kpx_gate *second = hold(s.b); // two of a kind
    add_one(s.b, s.add, s.x, kWords);
    REQUIRE_OK(kpx_stream_depend(s.c.get(), s.b.get(), flush(s.b), &err));
    add_one(s.c, s.add, s.x, kWords);
    REQUIRE_OK(kpx_stream_depend(s.a.get(), s.c.get(), flush(s.c), &err)); // a ring of streams
    add_one(s.a, s.add, s.x, kWords);
    const uint64_t last = flush(s.a);
    kpx_gate_open(second);
    CHECK(!reached(s.a, last));
    kpx_gate_open(first);
    wait(s.a, last);
    CHECK(download(s.a, s.x, kWords) == std::vector<uint32_t>(kWords, 31)); // 1, 3, 7, 15, 31: in order
}

// More submissions than may be in flight: they queue up, and no caller waits.
TEST(held_work_blocks_no_caller) {
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 0));
    kpx_gate *gate = hold(s.a);
    for (int i = 0; i < 100; i++) {
        add_one(s.a, s.add, s.x, 1);
        flush(s.a);
    }
    kpx_gate_open(gate);
    CHECK(download(s.a, s.x, 1)[0] == 0xffffffffu);
}

TEST(gates_open_from_any_thread) {
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 0));
    std::vector<std::thread> threads;
    uint32_t want = 0;
    for (int i = 0; i < 50; i++) {
        kpx_gate *gate = hold(s.a);
        threads.emplace_back([gate] { kpx_gate_open(gate); });
        add_one(s.a, s.add, s.x, kWords);
        want = 2 * want + 1;
        flush(s.a);
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(download(s.a, s.x, kWords) == std::vector<uint32_t>(kWords, want));
}

// Its work, too, waits for the work that is launched then.
TEST(a_stream_made_while_a_gate_opens_is_launched) {
    Streams s;
    kpx_gate *gate = hold(s.a);
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 1));
    const uint64_t held = flush(s.a);
    kpx::Device &device = *kpx::device_of(s.device.get());
    Stream late;
    uint64_t value = 0;
    std::jthread opener;
    {
        const std::lock_guard<std::mutex> lock(device.mutex());
        opener = std::jthread([gate] { kpx_gate_open(gate); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50)); // until it waits for the mutex
        late = new_stream(s.device);
        late->object->waits().add(s.a->object->timeline(), held);
        value = late->object->submit_pending();
    }
    opener.join();
    kpx_error err{};
    const kpx_result result = kpx_wait(late.get(), value, 10'000'000'000, &err);
    if (result != KPX_OK) {
        device.mark_lost(); // so that the stream's end does not wait either
    }
    CHECK(result == KPX_OK);
}

namespace {

VkResult no_wait(VkDevice, const VkSemaphoreWaitInfo *, uint64_t) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

// held_work fills x with ones in a and computes 2 x + 1 there, the latter behind the gate that it returns.
kpx_gate *held_work(const Streams &s) {
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 1));
    kpx_gate *gate = hold(s.a);
    add_one(s.a, s.add, s.x, kWords);
    flush(s.a);
    return gate;
}

} // namespace

// Held work would be dropped and yet count as done.
TEST(a_stream_waits_for_its_gate_even_if_the_driver_cannot_wait) {
    Streams s;
    kpx_gate *gate = held_work(s);
    std::atomic<bool> opened{false};
    {
        FAILING(vkWaitSemaphores, no_wait);
        const std::jthread opener([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            opened = true;
            kpx_gate_open(gate);
        });
        s.a.reset();
        CHECK(opened);
    }
    CHECK(download(s.b, s.x, kWords) == std::vector<uint32_t>(kWords, 3));
}

TEST(a_stream_that_is_destroyed_waits_for_its_gate) {
    Streams s;
    kpx_gate *gate = held_work(s);
    std::atomic<bool> opened{false};
    std::thread opener([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        opened = true;
        kpx_gate_open(gate);
    });
    s.a.reset();
    CHECK(opened);
    opener.join();
    CHECK(download(s.b, s.x, 1)[0] == 3);
    kpx_gate *unused = hold(s.b); // nothing comes after it
    s.b.reset();
    kpx_gate_open(unused);
}

TEST(reads_keep_what_they_have_read) {
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 0));
    std::vector<Read> reads;
    for (int i = 0; i < 40; i++) {
        add_one(s.a, s.add, s.x, kWords);
        reads.push_back(read(s.a, s.x, 8, 64));
    }
    const uint64_t submits = stats_of(s.a).submits;
    wait(s.a, flush(s.a));
    CHECK(stats_of(s.a).submits == submits + 1);
    uint32_t want = 0;
    for (const Read &one : reads) {
        want = 2 * want + 1;
        CHECK(take(one, 16) == std::vector<uint32_t>(16, want));
    }
    // Odd offsets, and more than one block.
    const uint32_t large = 5u << 20;
    Storage big = new_storage(s.device, uint64_t(large) * 4);
    std::vector<uint32_t> data(large);
    for (uint32_t i = 0; i < large; i++) {
        data[i] = i * 2654435761u;
    }
    upload(s.a, big, data);
    add_one(s.a, s.add, big, 1); // now only the device has it
    data[0] = 2 * data[0] + 1;
    const Read all = read(s.a, big, 0, uint64_t(large) * 4), odd = read(s.a, big, 4 * 1000 + 1, 7),
               none = read(s.a, big, 4, 0);
    wait(s.a, flush(s.a));
    CHECK(take(all, large) == data);
    kpx_error err{};
    const void *bytes = nullptr;
    REQUIRE_OK(kpx_read_wait(odd.get(), UINT64_MAX, &bytes, &err));
    CHECK(memcmp(bytes, reinterpret_cast<const uint8_t *>(data.data()) + 4001, 7) == 0);
    REQUIRE_OK(kpx_read_wait(none.get(), UINT64_MAX, &bytes, &err));
    kpx_read *bad = nullptr;
    REQUIRE_CODE(KPX_INVALID,
                 kpx_read_create(big.get(), s.a.get(), KPX_READ_APPEND, uint64_t(large) * 4, 1, &bad, &err));
}

TEST(reads_may_go_before_they_are_done_and_after_the_device) {
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 4));
    add_one(s.a, s.add, s.x, kWords); // 9: only the device has it
    Read dropped = read(s.a, s.x, 0, 64), kept = read(s.a, s.x, 0, 64);
    dropped.reset();
    s.x.reset();
    wait(s.a, flush(s.a));
    s.a.reset();
    s.device.reset();
    CHECK(take(kept, 16) == std::vector<uint32_t>(16, 9));
}

// A region's own memory: replays of two streams must not overlap there.
TEST(streams_replay_one_region_one_after_the_other) {
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 1));
    upload(s.a, s.y, std::vector<uint32_t>(kWords, 0));
    wait(s.a, flush(s.a));
    begin_capture(s.a);
    {
        Storage t = new_storage(s.device, kWords * 4), u = new_storage(s.device, kWords * 4);
        add_words(s.a, s.x, s.x, t, kWords);
        add_words(s.a, t, s.x, u, kWords);
        add_words(s.a, u, s.y, s.y, kWords); // y += 3 x
    }
    const Region region = end_capture(s.a);
    const Stream *streams[3] = {&s.a, &s.b, &s.c};
    for (int i = 0; i < 60; i++) {
        replay(*streams[i % 3], region, 1 + uint32_t(i) % 2);
    }
    std::vector<std::thread> threads;
    for (const Stream *stream : streams) {
        threads.emplace_back([&region, stream] {
            for (int i = 0; i < 30; i++) {
                replay(*stream, region);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (const Stream *stream : streams) {
        wait(*stream, flush(*stream));
    }
    CHECK(download(s.a, s.y, kWords) == std::vector<uint32_t>(kWords, 3 * (90 + 90)));
}

// Nor may a profile on another stream.
TEST(a_profile_runs_behind_another_streams_replay) {
    Streams s;
    upload(s.a, s.x, std::vector<uint32_t>(kWords, 1));
    wait(s.a, flush(s.a));
    begin_capture(s.a);
    add_one(s.a, s.add, s.x, kWords);
    const Region region = end_capture(s.a);
    kpx_gate *gate = hold(s.a);
    replay(s.a, region);
    std::atomic<bool> opened{false}, behind{false};
    std::thread profiler([&] {
        kpx_error err{};
        kpx_span whole{};
        const kpx_result result = profile(s.b.get(), region.get(), nullptr, 0, &whole, &err);
        behind = result == KPX_OK && opened;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    opened = true;
    kpx_gate_open(gate);
    profiler.join();
    CHECK(behind);
    replay(s.c, region); // after the profile, which is done, and therefore alone
    CHECK(download(s.c, s.x, kWords) == std::vector<uint32_t>(kWords, 15)); // 1, 3, 7, 15
}
