// Transients of regions: which ones are planned, and that sharing memory changes no results.
#include <cstdlib>

#include "shaders.hpp"
#include "test.hpp"

static constexpr uint32_t kWords = 3000;

// Sets an environment variable for a scope.
struct Setting {
    Setting(const char *name_, const char *value) : name(name_) { setenv(name, value, 1); }
    ~Setting() { unsetenv(name); }
    const char *name;
};

// A region that computes random sums of sums, most of which are its own tensors.
struct Sums {
    std::vector<Storage> results;
    std::vector<uint32_t> factors; // result i is factors[i] times the input
    Region region;
};

static Sums random_sums(const Device &device, const Stream &stream, const Storage &input, uint32_t seed) {
    Random random{seed};
    Sums sums;
    std::vector<Storage> made;
    std::vector<uint32_t> factors;
    begin_capture(stream);
    for (int i = 0; i < 60; i++) {
        // Picks one of the last few, so that lifetimes differ in length.
        const auto pick = [&] { return made.size() - 1 - random.below(uint32_t(std::min<size_t>(made.size(), 12))); };
        Storage out = new_storage(device, kWords * 4);
        const size_t a = made.empty() ? SIZE_MAX : pick(), b = made.empty() || random.below(4) == 0 ? SIZE_MAX : pick();
        add_words(stream, a == SIZE_MAX ? input : made[a], b == SIZE_MAX ? input : made[b], out, kWords);
        factors.push_back((a == SIZE_MAX ? 1 : factors[a]) + (b == SIZE_MAX ? 1 : factors[b]));
        made.push_back(std::move(out));
    }
    for (size_t i = made.size(); i-- > 0;) {
        if (random.below(10) == 0 || i + 1 == made.size()) {
            sums.results.push_back(std::move(made[i]));
            sums.factors.push_back(factors[i]);
        }
    }
    made.clear();
    sums.region = end_capture(stream);
    return sums;
}

static void check_sums(const Stream &stream, const Sums &sums, uint32_t value) {
    for (size_t i = 0; i < sums.results.size(); i++) {
        CHECK(download(stream, sums.results[i], kWords) == std::vector<uint32_t>(kWords, value * sums.factors[i]));
    }
}

TEST(transients_share_memory) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage input = new_storage(device, kWords * 4);
    for (uint32_t seed = 1; seed <= 12; seed++) {
        const Sums sums = random_sums(device, stream, input, seed);
        const kpx_region_stats stats = stats_of(sums.region);
        CHECK(stats.transient_bytes > 0 && stats.transient_bytes * 2 < stats.transient_bytes_unplanned);
        for (uint32_t value = 1; value <= 3; value++) {
            upload(stream, input, std::vector<uint32_t>(kWords, value * seed));
            replay(stream, sums.region, value);
            check_sums(stream, sums, value * seed);
        }
    }
}

TEST(planning_costs_no_barrier) {
    kpx_region_stats planned{}, apart{};
    for (const char *off : {"", "memory_plan"}) {
        Device device = open_without_passes(off);
        Stream stream = new_stream(device);
        Storage input = new_storage(device, kWords * 4);
        upload(stream, input, std::vector<uint32_t>(kWords, 1));
        const Sums sums = random_sums(device, stream, input, 99);
        replay(stream, sums.region);
        check_sums(stream, sums, 1);
        (*off == 0 ? planned : apart) = stats_of(sums.region);
    }
    CHECK(planned.dispatches == apart.dispatches && planned.barriers == apart.barriers);
    CHECK(planned.transient_bytes_unplanned == apart.transient_bytes_unplanned);
    CHECK(apart.transient_bytes == apart.transient_bytes_unplanned && planned.transient_bytes < apart.transient_bytes);
}

TEST(what_carries_data_keeps_its_memory) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage out = new_storage(device, kWords * 4), constant = new_storage(device, kWords * 4),
            count = new_storage(device, kWords * 4), half = new_storage(device, kWords * 4),
            passing = new_storage(device, kWords * 4);
    upload(stream, count, std::vector<uint32_t>(kWords, 0));
    upload(stream, half, std::vector<uint32_t>(kWords, 1000));
    begin_capture(stream);
    upload(stream, constant, std::vector<uint32_t>(kWords, 10)); // made while capturing: uploaded once
    add_one(stream, add, count, kWords);                         // counts replays
    add_words(stream, constant, constant, half, kWords / 2);     // the rest of half comes from before
    add_words(stream, constant, count, passing, kWords);
    add_words(stream, half, passing, out, kWords);
    constant.reset();
    count.reset();
    half.reset();
    passing.reset();
    Region region = end_capture(stream);
    for (uint32_t i = 1; i <= 5; i++) {
        replay(stream, region);
        const std::vector<uint32_t> got = download(stream, out, kWords);
        CHECK(got[0] == 20 + 10 + i && got[kWords - 1] == 1000 + 10 + i);
    }
    const uint64_t each = stats_of(region).transient_bytes_unplanned / 4;
    CHECK(each >= kWords * 4 && stats_of(region).transient_bytes == 4 * each);
    CHECK(stats_of(device).live_tensors == 1);
}

TEST(planned_memory_is_given_back) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage input = new_storage(device, kWords * 4);
    upload(stream, input, std::vector<uint32_t>(kWords, 1));
    wait(stream, flush(stream));
    uint64_t reserved = 0;
    for (uint32_t i = 0; i < 200; i++) {
        const Sums sums = random_sums(device, stream, input, 5);
        wait(stream, replay(stream, sums.region));
        reserved = i == 0 ? stats_of(device).reserved_bytes : reserved;
    }
    CHECK(stats_of(device).reserved_bytes == reserved && stats_of(device).live_tensors == 1);
}

// Regions of a stream share memory, whichever of them runs, and on whatever stream.
TEST(regions_share_memory) {
    constexpr uint64_t kEach = uint64_t(16) << 20; // an allocation of its own
    constexpr uint32_t kN = kEach / 4, kRegions = 2;
    Device device = open_device();
    Stream stream = new_stream(device), other = new_stream(device);
    Storage input = new_storage(device, kEach);
    upload(stream, input, std::vector<uint32_t>(kN, 3));
    std::vector<Storage> outs;
    std::vector<Region> regions;
    uint64_t reserved = 0;
    for (uint32_t i = 0; i < kRegions; i++) {
        outs.push_back(new_storage(device, kEach));
        upload(stream, outs[i], std::vector<uint32_t>(kN, 0));
    }
    wait(stream, flush(stream));
    for (uint32_t i = 0; i < kRegions; i++) {
        begin_capture(stream);
        std::vector<Storage> made;
        for (uint32_t k = 0; k < 2 + i; k++) {
            made.push_back(new_storage(device, kEach));
            add_words(stream, k == 0 ? input : made[k - 1], input, made.back(), kN);
        }
        add_words(stream, made.back(), input, outs[i], kN);
        made.clear();
        regions.push_back(end_capture(stream));
        CHECK(stats_of(regions[i]).transient_bytes == 2 * kEach);
        reserved = i == 0 ? stats_of(device).reserved_bytes : reserved;
    }
    CHECK(stats_of(device).reserved_bytes == reserved);
    for (uint32_t i = 0; i < 2 * kRegions; i++) {
        const uint32_t at = i % kRegions;
        upload(stream, input, std::vector<uint32_t>(kN, i));
        for (uint32_t k = 0; k < kRegions; k++) { // others use the memory, on both streams
            replay(k == i % 2 ? other : stream, regions[(at + 1 + k) % kRegions]);
        }
        CHECK(download(stream, outs[at], kN) == std::vector<uint32_t>(kN, i * (4 + at)));
    }
    regions.clear();
    const Sums sums = random_sums(device, stream, input, 3); // the memory is gone with the regions
    wait(stream, replay(stream, sums.region));
}

// What the memory plan puts into arenas takes no memory before that: here all of it together would not fit.
TEST(a_capture_takes_only_planned_memory) {
    constexpr uint64_t kBudget = uint64_t(128) << 20, kEach = uint64_t(20) << 20; // each an allocation of its own
    constexpr uint32_t kN = kEach / 4, kSteps = 10;
    Device device = open_device(kBudget);
    Stream stream = new_stream(device);
    Storage input = new_storage(device, kEach), out = new_storage(device, kEach);
    upload(stream, input, std::vector<uint32_t>(kN, 3));
    wait(stream, flush(stream));
    const uint64_t before = stats_of(device).reserved_bytes;
    begin_capture(stream);
    std::vector<Storage> made;
    for (uint32_t i = 0; i < kSteps; i++) {
        made.push_back(new_storage(device, kEach));
        add_words(stream, i == 0 ? input : made[i - 1], input, made.back(), kN);
    }
    add_words(stream, made.back(), input, out, kN);
    CHECK(stats_of(device).reserved_bytes == before);
    made.clear();
    const Region region = end_capture(stream);
    CHECK(stats_of(region).transient_bytes_unplanned > kBudget);
    for (int i = 0; i < 2; i++) {
        replay(stream, region);
        CHECK(download(stream, out, kN) == std::vector<uint32_t>(kN, 3 * (kSteps + 2)));
    }
    CHECK(stats_of(device).reserved_bytes <= kBudget);
}

// Tensors of the caller that first get memory in a capture are like others afterwards, also where it came to nothing.
TEST(tensors_first_used_in_a_capture) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage input = new_storage(device, kWords * 4), kept = new_storage(device, kWords * 4),
            later = new_storage(device, kWords * 4), sum = new_storage(device, kWords * 4);
    upload(stream, input, std::vector<uint32_t>(kWords, 1));
    begin_capture(stream);
    add_words(stream, input, input, kept, kWords);
    add_words(stream, kept, input, later, kWords);
    kpx_capture_abort(stream.get());
    add_words(stream, input, input, kept, kWords); // now it runs
    CHECK(download(stream, kept, kWords) == std::vector<uint32_t>(kWords, 2));
    begin_capture(stream);
    add_words(stream, kept, input, later, kWords);
    add_words(stream, later, later, sum, kWords);
    upload(stream, later, std::vector<uint32_t>(kWords, 9)); // takes its memory before the capture ends
    add_words(stream, later, sum, sum, kWords);
    const Region region = end_capture(stream);
    replay(stream, region);
    CHECK(download(stream, later, kWords) == std::vector<uint32_t>(kWords, 3));
    CHECK(download(stream, sum, kWords) == std::vector<uint32_t>(kWords, 9));
    add_words(stream, sum, later, sum, kWords);
    CHECK(download(stream, sum, kWords) == std::vector<uint32_t>(kWords, 12));
}

// If there is no memory for the tensors of the caller, the capture fails, and they can still be used.
TEST(a_capture_that_does_not_fit) {
    constexpr uint64_t kEach = uint64_t(20) << 20;
    constexpr uint32_t kN = kEach / 4;
    kpx_error err{};
    Device device = open_device(uint64_t(64) << 20);
    Stream stream = new_stream(device);
    Storage input = new_storage(device, kEach);
    upload(stream, input, std::vector<uint32_t>(kN, 1));
    wait(stream, flush(stream));
    std::vector<Storage> made;
    begin_capture(stream);
    for (int i = 0; i < 4; i++) {
        made.push_back(new_storage(device, kEach));
        add_words(stream, input, input, made.back(), kN);
    }
    kpx_region *none = nullptr;
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_capture_end(stream.get(), &none, &err));
    CHECK(err.requested >= kEach && stats_of(device).reserved_bytes <= uint64_t(64) << 20);
    made.resize(1);
    wait(stream, flush(stream));
    add_words(stream, input, input, made[0], kN);
    CHECK(download(stream, made[0], kN) == std::vector<uint32_t>(kN, 2));
}

TEST(a_region_describes_itself) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage input = new_storage(device, kWords * 4);
    const Sums sums = random_sums(device, stream, input, 3);
    const std::string text = describe(sums.region);
    for (const char *part : {"\"ops\":[", "\"name\":\"binary\"", "\"dispatches\":[", "\"kernel\":\"binary\"",
                             "\"barrier\":true", "\"kind\":\"planned\"", "\"kind\":\"external\"", "\"arena\":0",
                             "\"transient_bytes\":", "\"access\":\"write\",\"dtype\":\"uint32\"", "\"arenas\":["}) {
        CHECK(text.find(part) != std::string::npos);
    }
    CHECK(text.front() == '{' && text.back() == '}');
    char start[9] = "????????";
    CHECK(kpx_region_describe(sums.region.get(), start, 5) == text.size());
    CHECK(std::string(start) == text.substr(0, 5) + "???");
}
