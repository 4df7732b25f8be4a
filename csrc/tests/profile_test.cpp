// Timestamps: of a region's dispatches and of a stream's ops.
#include <algorithm>
#include <cstring>

#include "shaders.hpp"
#include "test.hpp"

static constexpr uint32_t kWords = 1000;

static void spin_for(const Stream &stream, const Algorithm &spin, const Storage &x, uint32_t rounds) {
    kpx_error err{};
    const kpx_array array = words_of(x, kWords, KPX_READ_WRITE);
    const uint32_t grid[3] = {kWords / 64, 1, 1};
    REQUIRE_OK(kpx_dispatch(stream.get(), spin.get(), &array, 1, grid, &rounds, 4, &err));
}

TEST(a_profile_runs_the_region_and_times_each_dispatch) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4), spin = new_algorithm(device, spirv_spin, 1, {}, 4);
    Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);
    upload(stream, x, std::vector<uint32_t>(kWords, 5));
    upload(stream, y, std::vector<uint32_t>(kWords, 1));
    begin_capture(stream);
    add_one(stream, add, x, kWords);
    spin_for(stream, spin, y, 60000);
    add_one(stream, add, x, kWords);
    Region region = end_capture(stream);
    kpx_span spans[3];
    kpx_span whole{};
    // The shortest of several rounds: other processes may slow down any of them.
    uint64_t shortest[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, shortest_whole = UINT64_MAX;
    for (int round = 0; round < 5; round++) {
        REQUIRE_OK(profile(stream.get(), region.get(), nullptr, 0, &whole, &err));
        CHECK(whole.end_ns > whole.start_ns);
        memset(spans, 0xff, sizeof spans);
        REQUIRE_OK(profile(stream.get(), region.get(), spans, 3, &whole, &err));
        uint64_t last = whole.start_ns;
        for (int i = 0; i < 3; i++) {
            const kpx_span &span = spans[i];
            CHECK(span.start_ns >= last && span.end_ns > span.start_ns && span.end_ns <= whole.end_ns);
            last = span.end_ns;
            shortest[i] = std::min(shortest[i], span.end_ns - span.start_ns);
        }
        shortest_whole = std::min(shortest_whole, whole.end_ns - whole.start_ns);
    }
    CHECK(shortest[1] > shortest[0] && shortest[1] > shortest[2]);
    CHECK(2 * shortest[1] > shortest_whole); // 60,000 rounds against 2
    CHECK(stats_of(stream).replays == 10);
    CHECK(download(stream, x, kWords) == std::vector<uint32_t>(kWords, 5 + 20));
    const kpx_stream_stats before = stats_of(stream);
    wait(stream, replay(stream, region)); // this is still the recording without timestamps
    CHECK(stats_of(stream).recorded_commands == before.recorded_commands);
    CHECK(download(stream, x, kWords) == std::vector<uint32_t>(kWords, 5 + 22));
}

TEST(a_profile_refuses) {
    kpx_error err{};
    Device device = open_device(), second = open_device();
    Stream stream = new_stream(device), foreign = new_stream(second);
    begin_capture(stream);
    Region region = end_capture(stream);
    kpx_span span;
    kpx_span whole{};
    REQUIRE_OK(profile(stream.get(), region.get(), nullptr, 0, &whole, &err));
    REQUIRE_OK(profile(stream.get(), region.get(), &span, 0, &whole, &err));
    REQUIRE_CODE(KPX_INVALID, profile(stream.get(), region.get(), &span, 1, &whole, &err));
    REQUIRE_CODE(KPX_INVALID, profile(foreign.get(), region.get(), nullptr, 0, &whole, &err));
    REQUIRE_CODE(KPX_INVALID, profile(stream.get(), nullptr, nullptr, 0, &whole, &err));
    begin_capture(stream);
    REQUIRE_CODE(KPX_INVALID, profile(stream.get(), region.get(), nullptr, 0, &whole, &err));
}

static kpx_op_time time_of(const Stream &stream, const char *op) {
    kpx_op_time all[16];
    const uint64_t n = kpx_stream_get_op_times(stream.get(), all, 16);
    CHECK(n <= 16 && kpx_stream_get_op_times(stream.get(), nullptr, 0) == n);
    for (uint64_t i = 0; i < n; i++) {
        if (strcmp(all[i].op, op) == 0) {
            return all[i];
        }
    }
    return {};
}

TEST(ops_are_timed_only_when_asked) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm spin = new_algorithm(device, spirv_spin, 1, {}, 4);
    Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);
    upload(stream, x, std::vector<uint32_t>(kWords, 1));
    add_words(stream, x, x, y, kWords);
    wait(stream, flush(stream));
    CHECK(kpx_stream_get_op_times(stream.get(), nullptr, 0) == 0);
    REQUIRE_OK(kpx_stream_time_ops(stream.get(), KPX_TIME_SUMS, &err));
    for (int i = 0; i < 3; i++) {
        add_words(stream, x, x, y, kWords);
        add_words(stream, y, y, x, kWords);
        spin_for(stream, spin, y, 20000);
        wait(stream, flush(stream));
    }
    upload(stream, y, std::vector<uint32_t>(kWords, 7));
    CHECK(download(stream, x, kWords) == std::vector<uint32_t>(kWords, 64));
    REQUIRE_OK(kpx_stream_time_ops(stream.get(), KPX_TIME_NOTHING, &err));
    add_words(stream, x, x, y, kWords);
    wait(stream, flush(stream));
    const kpx_op_time add = time_of(stream, "binary"), custom = time_of(stream, "custom"),
                      moved = time_of(stream, "transfer");
    CHECK(add.calls == 6 && add.dispatches == 6 && add.device_ns > 0);
    CHECK(custom.calls == 3 && custom.dispatches == 3 && custom.device_ns > add.device_ns);
    CHECK(moved.calls == 2 && moved.device_ns > 0);
}

TEST(timed_dispatches_are_given_once_by_the_hosts_clock) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage x = new_storage(device, kWords * 4);
    upload(stream, x, std::vector<uint32_t>(kWords, 5));
    wait(stream, flush(stream));
    const uint64_t before = kpx_clock_ns();
    REQUIRE_OK(kpx_stream_time_ops(stream.get(), KPX_TIME_SPANS, &err));
    for (int i = 0; i < 3; i++) {
        add_one(stream, add, x, kWords);
    }
    wait(stream, flush(stream));
    REQUIRE_OK(kpx_stream_time_ops(stream.get(), KPX_TIME_SUMS, &err));
    add_one(stream, add, x, kWords);
    wait(stream, flush(stream));
    kpx_op_span spans[4];
    CHECK(kpx_stream_take_spans(stream.get(), spans, 2) == 2);
    CHECK(kpx_stream_take_spans(stream.get(), spans + 2, 2) == 1);
    CHECK(kpx_stream_take_spans(stream.get(), spans + 3, 1) == 0);
    uint64_t last = before;
    for (int i = 0; i < 3; i++) {
        CHECK(std::string(spans[i].op) == "custom" && std::string(spans[i].kernel) == "custom");
        CHECK(spans[i].span.start_ns >= last && spans[i].span.end_ns > spans[i].span.start_ns);
        last = spans[i].span.end_ns;
    }
    CHECK(last < kpx_clock_ns());
}

TEST(a_device_without_timestamps_measures_nothing_and_works) {
    kpx_error err{};
    kpx_device_options options{};
    options.masked = "timestamps";
    Device device = open_device(options);
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage x = new_storage(device, kWords * 4);
    upload(stream, x, std::vector<uint32_t>(kWords, 5));
    REQUIRE_CODE(KPX_UNSUPPORTED, kpx_stream_time_ops(stream.get(), KPX_TIME_SUMS, &err));
    REQUIRE_CODE(KPX_UNSUPPORTED, kpx_stream_time_ops(stream.get(), KPX_TIME_SPANS, &err));
    REQUIRE_OK(kpx_stream_time_ops(stream.get(), KPX_TIME_NOTHING, &err));
    begin_capture(stream);
    add_one(stream, add, x, kWords);
    const Region region = end_capture(stream);
    kpx_span whole{}, each{};
    REQUIRE_CODE(KPX_UNSUPPORTED, profile(stream.get(), region.get(), nullptr, 0, &whole, &err));
    REQUIRE_CODE(KPX_UNSUPPORTED, profile(stream.get(), region.get(), &each, 1, &whole, &err));
    CHECK(stats_of(stream).replays == 0);
    replay(stream, region);
    add_one(stream, add, x, kWords);
    CHECK(download(stream, x, 1)[0] == 7);
    CHECK(kpx_stream_get_op_times(stream.get(), nullptr, 0) == 0);
    CHECK(kpx_stream_take_spans(stream.get(), nullptr, 0) == 0);
}
