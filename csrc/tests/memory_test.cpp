// Buffers: ranges of slabs, large ones, budgets and limits.
#include <map>

#include "runtime/ranges.hpp"
#include "test.hpp"

TEST(ranges_are_cut_and_joined) {
    constexpr uint64_t kSize = 1 << 16;
    kpx::RangeAllocator ranges(kSize);
    std::map<uint64_t, uint64_t> live;
    Random random{11};
    for (int step = 0; step < 20000; step++) {
        if (live.empty() || random.below(5) < 3) {
            const uint64_t bytes = (random.below(16) + 1) * 256;
            const uint64_t start = ranges.take(bytes);
            if (start == kpx::RangeAllocator::kNone) {
                continue;
            }
            auto next = live.lower_bound(start);
            CHECK(start + bytes <= kSize && (next == live.end() || start + bytes <= next->first));
            CHECK(next == live.begin() || std::prev(next)->first + std::prev(next)->second <= start);
            live[start] = bytes;
        } else {
            auto it = std::next(live.begin(), random.below(uint32_t(live.size())));
            ranges.give_back(it->first, it->second);
            live.erase(it);
        }
    }
    for (const auto &range : live) {
        ranges.give_back(range.first, range.second);
    }
    CHECK(ranges.empty() && ranges.largest() == kSize);
}

TEST(buffers_never_overlap) {
    Device device = open_device();
    Stream stream = new_stream(device);
    struct Live {
        Buffer buffer;
        uint32_t tag, words;
    };
    std::vector<Live> live;
    Random random{5};
    auto check_one = [&](const Live &one) {
        const std::vector<uint32_t> data = download(stream, one.buffer, one.words);
        for (uint32_t word : data) {
            CHECK(word == one.tag);
        }
    };
    for (uint32_t step = 0; step < 400; step++) {
        if (live.empty() || random.below(3) < 2) {
            const uint32_t words = 1 + random.below(random.below(8) == 0 ? 100000 : 1000);
            live.push_back({new_buffer(device, words * 4), step, words});
            upload(stream, live.back().buffer, std::vector<uint32_t>(words, step));
        } else {
            const size_t i = random.below(uint32_t(live.size()));
            check_one(live[i]);
            live.erase(live.begin() + ptrdiff_t(i));
        }
    }
    for (const Live &one : live) {
        check_one(one);
    }
    CHECK(stats_of(device).live_buffers == live.size());
    live.clear();
    const kpx_device_stats stats = stats_of(device);
    CHECK(stats.live_buffers == 0 && stats.live_bytes == 0 && stats.peak_bytes > 0);
}

TEST(freed_memory_is_used_again) {
    Device device = open_device();
    Stream stream = new_stream(device);
    uint64_t reserved = 0;
    for (int round = 0; round < 50; round++) {
        Buffer large = new_buffer(device, uint64_t(20) << 20);
        Buffer small = new_buffer(device, 1 << 20);
        upload(stream, large, {1});
        upload(stream, small, {2});
        CHECK(download(stream, large, 1)[0] == 1);
        const uint64_t now = stats_of(device).reserved_bytes;
        CHECK(round == 0 || now == reserved);
        reserved = now;
    }
}

TEST(out_of_memory_says_how_much) {
    kpx_error err{};
    constexpr uint64_t kBudget = uint64_t(64) << 20;
    Device device = open_device(kBudget);
    std::vector<Buffer> held;
    constexpr uint64_t kEach = uint64_t(20) << 20;
    for (int i = 0; i < 3; i++) {
        held.push_back(new_buffer(device, kEach));
    }
    kpx_buffer *buffer = nullptr;
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_buffer_create(device.get(), kEach, &buffer, &err));
    CHECK(buffer == nullptr && err.requested >= kEach && err.available < kEach);
    CHECK(stats_of(device).reserved_bytes <= kBudget);
    CHECK(stats_of(device).live_buffers == 3);
    held.pop_back(); // and there is room again
    held.push_back(new_buffer(device, kEach));
    held.clear();
    held.push_back(new_buffer(device, uint64_t(60) << 20)); // what the three leave in reserve does not stand in the way
}

TEST(memory_of_finished_work_is_found_when_it_is_short) {
    Device device = open_device(uint64_t(48) << 20);
    Stream stream = new_stream(device);
    for (uint32_t i = 0; i < 20; i++) { // nobody waits: the streams still hold what they are done with
        Buffer buffer = new_buffer(device, uint64_t(40) << 20);
        upload(stream, buffer, {i});
        CHECK(download(stream, buffer, 1)[0] == i);
    }
}

TEST(too_large_is_its_own_error) {
    kpx_error err{};
    kpx_device_info info;
    REQUIRE_OK(kpx_device_describe(0, &info, &err));
    Device device = open_device();
    kpx_buffer *buffer = nullptr;
    for (uint64_t bytes : {info.max_buffer_bytes + 1, (uint64_t(1) << 32) + 128, UINT64_MAX}) {
        REQUIRE_CODE(KPX_TOO_LARGE, kpx_buffer_create(device.get(), bytes, &buffer, &err));
        CHECK(err.requested == bytes && err.available == info.max_buffer_bytes);
    }
    Buffer whole = new_buffer(device, info.max_buffer_bytes);
    CHECK(whole != nullptr);
}

TEST(zero_bytes_make_a_buffer) {
    Device device = open_device();
    Buffer buffer = new_buffer(device, 0);
    CHECK(stats_of(device).live_buffers == 1 && stats_of(device).live_bytes == 0);
}
