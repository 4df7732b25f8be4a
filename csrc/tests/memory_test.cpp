// Buffers: ranges of slabs, large ones, budgets and limits.
#include <map>

#include "failing.hpp"
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
        Storage buffer;
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
    for (uint32_t step = 0; step < 200; step++) {
        if (live.empty() || random.below(3) < 2) {
            const uint32_t words = 1 + random.below(random.below(8) == 0 ? 100000 : 1000);
            live.push_back({new_storage(device, words * 4), step, words});
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
    CHECK(stats_of(device).live_tensors == live.size());
    live.clear();
    const kpx_device_stats stats = stats_of(device);
    CHECK(stats.live_tensors == 0 && stats.live_bytes == 0 && stats.peak_bytes > 0);
}

TEST(freed_memory_is_used_again) {
    Device device = open_device();
    Stream stream = new_stream(device);
    uint64_t reserved = 0;
    for (int round = 0; round < 4; round++) {
        Storage large = new_storage(device, uint64_t(20) << 20);
        Storage small = new_storage(device, 1 << 20);
        upload(stream, large, {1});
        upload(stream, small, {2});
        add_words(stream, large, small, large, 1); // now only the device has it
        CHECK(download(stream, large, 1)[0] == 3);
        const uint64_t now = stats_of(device).reserved_bytes;
        CHECK(round == 0 || now == reserved);
        reserved = now;
    }
}

TEST(out_of_memory_says_how_much) {
    kpx_error err{};
    constexpr uint64_t kBudget = uint64_t(64) << 20;
    Device device = open_device(kBudget);
    std::vector<Storage> held;
    constexpr uint64_t kEach = uint64_t(20) << 20;
    Stream stream = new_stream(device);
    const auto hold = [&](uint64_t bytes) { // now it takes memory on the device
        held.push_back(new_storage(device, bytes));
        upload(stream, held.back(), {1});
    };
    for (int i = 0; i < 3; i++) {
        hold(kEach);
    }
    Storage fourth = new_storage(device, kEach); // it has no memory yet
    write_bytes(stream, fourth, 0, nullptr, kEach);
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), fourth.get(), &err));
    CHECK(err.requested >= kEach && err.available < kEach && err.of_content == 0);
    CHECK(stats_of(device).reserved_bytes <= kBudget);
    CHECK(stats_of(device).live_tensors == 4);
    wait(stream, flush(stream));
    held.pop_back(); // and there is room again
    REQUIRE_OK(kpx_upload(stream.get(), fourth.get(), &err));
    fourth.reset();
    held.clear();
    wait(stream, flush(stream));
    hold(uint64_t(60) << 20); // memory that was kept after freeing these does not count
}

TEST(memory_of_finished_work_is_found_when_it_is_short) {
    Device device = open_device(uint64_t(48) << 20);
    Stream stream = new_stream(device);
    for (uint32_t i = 0; i < 8; i++) { // without waiting, so the streams still hold finished work
        Storage buffer = new_storage(device, uint64_t(40) << 20);
        upload(stream, buffer, {i});
        add_words(stream, buffer, buffer, buffer, 1); // now only the device has it
        CHECK(download(stream, buffer, 1)[0] == 2 * i);
    }
}

TEST(too_large_is_its_own_error) {
    kpx_error err{};
    kpx_device_info info;
    REQUIRE_OK(kpx_device_describe(0, &info, &err));
    Device device = open_device();
    kpx_tensor *buffer = nullptr;
    for (uint64_t bytes : {info.max_buffer_bytes + 1, (uint64_t(1) << 32) + 128, UINT64_MAX}) {
        REQUIRE_CODE(KPX_TOO_LARGE, kpx_tensor_create(device.get(), bytes, &buffer, &err));
        CHECK(err.requested == bytes && err.available == info.max_buffer_bytes);
    }
    Storage whole = new_storage(device, info.max_buffer_bytes);
    CHECK(whole != nullptr);
}

// Memory is planned in whole units, also that of a region.
TEST(the_largest_tensor_is_whole_units) {
    static PFN_vkGetPhysicalDeviceProperties2 get;
    open_device(); // loads the functions
    get = VULKAN_HPP_DEFAULT_DISPATCHER.vkGetPhysicalDeviceProperties2;
    FAILING(vkGetPhysicalDeviceProperties2, [](VkPhysicalDevice device, VkPhysicalDeviceProperties2 *out) {
        get(device, out);
        out->properties.limits.maxStorageBufferRange = (128 << 20) + 100;
    });
    kpx_error err{};
    kpx_device_info info;
    REQUIRE_OK(kpx_device_describe(0, &info, &err));
    CHECK(info.max_buffer_bytes == 128 << 20);
}

TEST(zero_bytes_make_a_buffer) {
    Device device = open_device();
    Storage buffer = new_storage(device, 0);
    CHECK(stats_of(device).live_tensors == 1 && stats_of(device).live_bytes == 0);
}

namespace {

PFN_vkGetPhysicalDeviceProperties properties;
void few_allocations(VkPhysicalDevice device, VkPhysicalDeviceProperties *out) {
    properties(device, out);
    out->limits.maxMemoryAllocationCount = 4096; // the least that Vulkan allows
}

} // namespace

TEST(mapped_tensors_keep_to_the_number_of_allocations) {
    properties = reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(
        kpx::vulkan_instance().getProcAddr("vkGetPhysicalDeviceProperties"));
    FAILING(vkGetPhysicalDeviceProperties, few_allocations);
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    { // leaves a slab that nothing uses
        const Storage kept = new_storage(device, 64);
        upload(stream, kept, {1});
        wait(stream, flush(stream));
    }
    std::vector<Storage> all;
    kpx_result result = KPX_OK;
    while (all.size() < 5000 && result == KPX_OK) {
        kpx_tensor *handle = nullptr;
        void *memory = nullptr;
        result = kpx_tensor_create_mapped(device.get(), 4, &handle, &memory, &err);
        if (result == KPX_OK) {
            all.emplace_back(handle);
        }
    }
    if (result != KPX_OUT_OF_MEMORY || all.size() != 4096) {
        throw Failure{"result " + std::to_string(result) + " after " + std::to_string(all.size()) + ": " + err.message};
    }
    const Storage other = new_storage(device, 64);
    write_bytes(stream, other, 0, nullptr, 64);
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_upload(stream.get(), other.get(), &err));
    all.pop_back();
    REQUIRE_OK(kpx_upload(stream.get(), other.get(), &err)); // in its place
}
