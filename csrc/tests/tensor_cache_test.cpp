// The tensor cache: where content is current, for any order of host writes,
// ops, reads and replays, on one stream and on several.
#include <algorithm>
#include <atomic>
#include <thread>

#include "abi/handles.hpp"
#include "cache/tensor.hpp"
#include "runtime/device.hpp"
#include "shaders.hpp"
#include "stream/stream.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 64;

std::vector<uint32_t> filled(uint32_t value) {
    return std::vector<uint32_t>(kWords, value);
}

struct Fixture {
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4); // x += 1

    Storage tensor() { return new_storage(device, kWords * 4); }
    Storage tensor(uint32_t value) {
        Storage made = tensor();
        write(a, made, value);
        return made;
    }
    void write(const Stream &stream, const Storage &x, uint32_t value) {
        const std::vector<uint32_t> data = filled(value);
        write_bytes(stream, x, 0, data.data(), data.size() * 4);
    }
    uint64_t hits() { return stats_of(device).cache_hits; }
    uint64_t uploads() { return stats_of(device).uploads; }
};

} // namespace

// An upload that fails half-way may end at a point from before what it was to follow.
TEST(a_failed_copy_forgets_no_readers) {
    Fixture f;
    const Storage x = f.tensor(3);
    kpx::Tensor &t = *kpx::tensor_of(x.get());
    const auto point = [&](const Stream &stream, uint64_t value, bool pending) {
        auto made = std::make_shared<kpx::Point>();
        made->timeline = stream->object->timeline();
        made->value = value;
        made->pending = pending;
        return made;
    };
    const auto has = [](const std::vector<std::shared_ptr<kpx::Point>> &points, const auto &p) {
        return std::find(points.begin(), points.end(), p) != points.end();
    };
    const std::lock_guard<std::mutex> lock(t.device->mutex());
    const auto reader = point(f.b, 7, false), before = point(f.a, 0, false), window = point(f.a, 1, true);
    t.read_at(reader);
    t.went_up_in_part(before);
    CHECK(has(t.readers(), reader) && has(t.readers(), before) && !t.device_fresh);
    t.lost(before, kpx::Error(KPX_INTERNAL, "made to fail"));
    CHECK(has(t.earlier(), reader));
    t.host_wrote(t.device->host_memory().zeroed(t.bytes));
    t.went_up_in_part(window); // whose submission waits for all of them
    CHECK(t.writer() == window && t.readers().empty());
}

// A tensor that one region uses does not become another region's own if it is closed while that other one is captured.
TEST(a_closed_tensor_of_another_region_stays_shared) {
    Fixture f;
    Storage x = f.tensor(3), y = f.tensor(), z = f.tensor();
    begin_capture(f.a);
    add_words(f.a, x, x, y, kWords);
    const Region reads = end_capture(f.a);
    replay(f.a, reads);
    CHECK(download(f.a, y, kWords) == filled(6));
    begin_capture(f.a);
    add_words(f.a, y, y, x, kWords);
    add_words(f.a, x, x, z, kWords);
    x.reset();
    const Region writes = end_capture(f.a);
    replay(f.a, writes); // x is 12
    CHECK(download(f.a, z, kWords) == filled(24));
    replay(f.a, reads);
    CHECK(download(f.a, y, kWords) == filled(24));
}

TEST(content_goes_up_once_and_only_when_it_is_needed) {
    Fixture f;
    Storage x = f.tensor(3), y = f.tensor();
    CHECK(f.uploads() == 0);
    add_words(f.a, x, x, y, kWords); // one operand twice
    add_words(f.a, x, x, y, kWords);
    CHECK(f.uploads() == 1);
    CHECK(download(f.a, y, kWords) == filled(6));
    f.write(f.a, y, 1); // replaced before it is read
    add_words(f.a, x, x, y, kWords);
    CHECK(f.uploads() == 1 && download(f.b, y, kWords) == filled(6));
    f.write(f.a, x, 5);
    add_words(f.a, x, x, y, kWords);
    CHECK(f.uploads() == 2 && download(f.a, y, kWords) == filled(10));
}

TEST(a_whole_read_makes_the_hosts_copy_current) {
    Fixture f;
    Storage x = f.tensor(3), y = f.tensor();
    add_words(f.a, x, x, y, kWords);
    const Read part = read(f.a, y, 4, 8), whole = read(f.a, y, 0, kWords * 4);
    CHECK(take(part, 2) == std::vector<uint32_t>(2, 6));
    CHECK(kpx_read_moved(read(f.a, y, 0, kWords * 4).get()) == 1); // reading a part does not update the rest
    CHECK(take(whole, kWords) == filled(6));
    const Read again = read(f.b, y, 0, kWords * 4);
    CHECK(kpx_read_moved(again.get()) == 0 && take(again, kWords) == filled(6));
    const uint64_t uploads = f.uploads();
    add_words(f.b, y, y, x, kWords); // both copies are current
    CHECK(f.uploads() == uploads && download(f.b, x, kWords) == filled(12));
    add_one(f.b, f.add, y, kWords); // and now only the device's
    CHECK(kpx_read_moved(read(f.b, y, 0, 4).get()) == 1);
    CHECK(take(again, kWords) == filled(6) && download(f.a, y, kWords) == filled(7));
}

// The result of a read that is waited for only after the tensor was written again must not become its content.
TEST(an_old_read_does_not_become_the_hosts_copy) {
    Fixture f;
    for (int writer = 0; writer < 4; writer++) {
        Storage x = f.tensor(1), y = f.tensor(50);
        add_one(f.a, f.add, x, kWords);
        begin_capture(f.a);
        add_one(f.a, f.add, x, kWords);
        const Region region = end_capture(f.a);
        replay(f.a, region); // 3
        const Read old = read(f.a, x, 0, kWords * 4);
        uint32_t want = 4;
        if (writer == 0) {
            add_one(f.a, f.add, x, kWords);
        } else if (writer == 1) {
            replay(f.a, region);
        } else if (writer == 2) {
            replay(f.b, region);
        } else {
            f.write(f.b, x, want = 9);
        }
        CHECK(take(old, kWords) == filled(3));
        CHECK(download(f.b, x, kWords) == filled(want));
        add_words(f.b, x, y, y, kWords);
        CHECK(download(f.a, y, kWords) == filled(50 + want));
    }
}

TEST(reads_keep_their_bytes_when_the_host_writes) {
    Fixture f;
    Storage x = f.tensor(1);
    const Read first = read(f.a, x, 0, kWords * 4);
    const uint32_t word = 7;
    write_bytes(f.a, x, 4, &word, 4);
    const Read second = read(f.a, x, 0, kWords * 4);
    f.write(f.a, x, 9);
    x.reset();
    CHECK(take(first, kWords) == filled(1));
    CHECK(take(second, 3) == (std::vector<uint32_t>{1, 7, 1}));
}

TEST(a_partial_write_goes_where_the_content_is) {
    Fixture f;
    Storage x = f.tensor(1), y = f.tensor(0);
    add_one(f.a, f.add, x, kWords);
    const uint64_t uploads = stats_of(f.device).upload_bytes;
    const uint32_t word = 7;
    write_bytes(f.b, x, 8, &word, 4); // on another stream, after the op
    CHECK(stats_of(f.device).upload_bytes == uploads + 4);
    add_words(f.a, x, y, y, kWords);
    CHECK(download(f.a, y, 4) == (std::vector<uint32_t>{2, 2, 7, 2}));
    kpx_array many = bytes_of(x, 0, 0); // every other byte of 66
    many.shape[0] = kWords + 2;
    many.strides[0] = 2;
    kpx_error err{};
    REQUIRE_CODE(KPX_STALE, kpx_tensor_write(&many, f.a.get(), nullptr, 0, &err));
    CHECK(download(f.a, x, kWords)[2] == 7); // which updates the host's copy
    REQUIRE_OK(kpx_tensor_write(&many, f.a.get(), nullptr, 0, &err));
    CHECK(download(f.b, x, kWords)[2] == 0);
}

TEST(an_empty_view_changes_nothing_and_waits_for_nothing) {
    kpx_error err{};
    Fixture f;
    Storage x = f.tensor(1), word = new_storage(f.device, 4), none = new_storage(f.device, 0);
    write_bytes(f.a, word, 0, "abcd", 4);
    const uint32_t unused = 0;
    for (const Storage *t : {&x, &word, &none}) {
        kpx_array in = words_of(x, 0, KPX_READ), out = words_of(*t, 0, KPX_WRITE);
        REQUIRE_OK(append_op(f.a, "copy", {in, out}, &unused, 4, &err));
        add_words(f.b, *t, *t, *t, 0);
        add_words(f.a, *t, *t, *t, 0);
    }
    CHECK(download(f.b, word, 1)[0] == 0x64636261);
    add_words(f.b, x, x, x, kWords); // does not wait for work that does not exist
    CHECK(download(f.a, x, kWords) == filled(2));
    CHECK(download(f.b, none, 0).empty());
    begin_capture(f.a);
    add_words(f.a, none, none, none, 0);
    const Region region = end_capture(f.a);
    wait(f.a, replay(f.a, region));
}

TEST(memory_of_the_caller_serves_until_the_tensor_goes) {
    kpx_error err{};
    Fixture f;
    std::vector<uint32_t> memory = filled(4);
    kpx_tensor *handle = nullptr;
    REQUIRE_OK(kpx_tensor_wrap(f.device.get(), memory.data(), kWords * 4, &handle, &err));
    Storage x(handle), y = f.tensor();
    CHECK(stats_of(f.device).host_bytes == 0);
    const kpx_array view = words_of(x, 1, KPX_WRITE);
    REQUIRE_CODE(KPX_INVALID, kpx_tensor_write(&view, f.a.get(), nullptr, 0, &err));
    const Read kept = read(f.a, x, 0, kWords * 4);
    begin_capture(f.a);
    add_words(f.a, x, x, y, kWords);
    const Region region = end_capture(f.a);
    x.reset();
    memory.assign(memory.size(), 99);
    replay(f.b, region);
    CHECK(download(f.a, y, kWords) == filled(8) && take(kept, kWords) == filled(4));
}

TEST(a_tensor_that_lives_long_remembers_few_readers) {
    Fixture f;
    Storage x = f.tensor(1), y = f.tensor();
    size_t most = 0;
    for (int i = 0; i < 3000; i++) {
        const Stream stream = new_stream(f.device);
        add_words(stream, x, x, y, kWords);
        wait(stream, flush(stream));
        most = std::max(most, x->object->readers().size());
    }
    CHECK(most < 16);
    add_one(f.a, f.add, x, kWords);
    CHECK(download(f.a, x, 1)[0] == 2);
}

// ---- Replays ----

TEST(steady_replays_look_at_nothing_and_see_every_change) {
    Fixture f;
    Storage x = f.tensor(1), y = f.tensor(0);
    begin_capture(f.a);
    add_words(f.a, x, y, y, kWords); // y += x
    const Region region = end_capture(f.a);
    replay(f.a, region);
    replay(f.a, region);
    const uint64_t hits = f.hits();
    for (int i = 0; i < 20; i++) {
        replay(f.a, region);
    }
    CHECK(f.hits() == hits); // y = 22
    f.write(f.a, x, 100);    // the host
    replay(f.a, region);
    CHECK(f.hits() > hits);
    add_one(f.b, f.add, x, kWords); // another stream: 101
    replay(f.a, region);
    CHECK(download(f.b, y, kWords) == filled(22 + 100 + 101)); // the host has it now,
    replay(f.a, region);                                       // and then again it does not
    CHECK(download(f.b, y, kWords) == filled(22 + 100 + 101 + 101));
    x.reset(); // closed, but the region keeps it
    replay(f.a, region);
    replay(f.b, region);
    CHECK(download(f.a, y, kWords) == filled(22 + 100 + 4 * 101));
}

// Two regions that share a tensor, each on a stream of its own.
TEST(replays_of_regions_follow_each_other_through_a_tensor) {
    Fixture f;
    Algorithm times = new_algorithm(f.device, spirv_add_one, 1, {3}, 4); // x = 3 x + 1
    Storage x = f.tensor(1), y = f.tensor(0);
    begin_capture(f.a);
    add_one(f.a, times, x, kWords);
    const Region writes = end_capture(f.a);
    begin_capture(f.b);
    add_words(f.b, x, y, y, kWords);
    const Region reads = end_capture(f.b);
    Random random{17};
    uint32_t at_x = 1, at_y = 0;
    for (int i = 0; i < 400; i++) {
        if (random.below(2) == 0) {
            replay(f.a, writes);
            at_x = 3 * at_x + 1;
        } else {
            replay(f.b, reads);
            at_y += at_x;
        }
        if (random.below(40) == 0) {
            CHECK(download(f.a, y, kWords) == filled(at_y) && download(f.b, x, kWords) == filled(at_x));
        }
    }
    CHECK(download(f.a, y, kWords) == filled(at_y) && download(f.b, x, kWords) == filled(at_x));
}

// An operand that another stream has yet to make, and one whose handles are gone when the capture ends.
TEST(a_region_waits_for_what_its_closed_tensors_hold) {
    Fixture f;
    for (int i = 0; i < 20; i++) {
        Storage y = f.tensor(0);
        Storage x = f.tensor(1);
        for (int k = 0; k < 10; k++) {
            add_one(f.b, f.add, x, kWords); // pending on b
        }
        begin_capture(f.a);
        add_words(f.a, x, y, y, kWords);
        x.reset();
        const Region region = end_capture(f.a);
        replay(f.a, region);
        CHECK(download(f.a, y, kWords) == filled(11));
    }
}

// ---- Threads ----

TEST(threads_share_tensors_streams_and_reads) {
    Fixture f;
    Storage shared = f.tensor(1);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (uint32_t t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            try {
                Random random{t + 1};
                for (int i = 0; i < 60; i++) {
                    const Stream own = new_stream(f.device);
                    const Stream &stream = random.below(2) == 0 ? own : f.a;
                    Storage mine = new_storage(f.device, kWords * 4);
                    const std::vector<uint32_t> data = filled(t * 100);
                    write_bytes(stream, mine, 0, data.data(), kWords * 4);
                    add_words(own, shared, mine, mine, kWords); // shared has 1 or 2 everywhere
                    const Read early =
                        read(stream, mine, 0, kWords * 4, random.below(2) ? KPX_READ_SOON : KPX_READ_APPEND);
                    if (random.below(3) == 0) {
                        f.write(own, shared, 1 + random.below(2));
                    }
                    add_one(stream, f.add, mine, kWords);
                    const std::vector<uint32_t> got = take(early, kWords), last = download(own, mine, kWords);
                    for (uint32_t word : got) {
                        wrong += word != got[0] || word < t * 100 + 1 || word > t * 100 + 2;
                    }
                    wrong += last != filled(got[0] + 1);
                    mine.reset();
                    wrong += take(early, kWords) != got;
                }
            } catch (const Failure &failure) {
                fprintf(stderr, "%s\n", failure.text.c_str());
                wrong += 1000;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(wrong == 0);
}
