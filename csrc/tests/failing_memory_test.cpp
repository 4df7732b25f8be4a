// Calls that lack host memory, at each of their allocations: what fails has done nothing. The model of the tensor cache
// does the same at random (tensor_cache_model_test.cpp).
#include "failing_memory.hpp"

#include "abi/handles.hpp"
#include "cache/tensor.hpp"
#include "stream/stream.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 64;

std::vector<uint32_t> all(uint32_t value) {
    return std::vector<uint32_t>(kWords, value);
}

// Calls attempt(make) for each allocation that a call makes, which then fails; make(call) makes the call. Until one
// succeeds without a failure.
template <typename Attempt> void at_each_allocation(Attempt attempt) {
    constexpr uint64_t kMost = 1000;
    bool failed = true;
    for (uint64_t i = 0; failed; i++) {
        CHECK(i < kMost);
        attempt([&](auto call) {
            kpx_error err{};
            const FailingMemory memory(i);
            const kpx_result result = call(&err);
            failed = FailingMemory::failed();
            return result;
        });
    }
}

struct Fixture {
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device);

    Storage tensor(uint32_t value) {
        Storage made = new_storage(device, kWords * 4);
        upload(a, made, all(value));
        return made;
    }
};

} // namespace

TEST(a_replay_without_host_memory_counts_as_none) {
    kpx_error err{};
    Fixture f;
    at_each_allocation([&](auto make) {
        const Storage x = f.tensor(2), y = f.tensor(1), unused = f.tensor(0);
        kpx_gate *gate = nullptr; // so that x has a reader that is not done
        REQUIRE_OK(kpx_stream_hold(f.a.get(), &gate, &err));
        add_words(f.a, x, x, unused, kWords);
        flush(f.a);
        begin_capture(f.a);
        add_words(f.a, x, y, y, kWords); // y += 2
        const Region region = end_capture(f.a);
        uint64_t value = 0;
        const kpx_result result =
            make([&](kpx_error *failed) { return kpx_replay(f.b.get(), region.get(), 1, UINT64_MAX, &value, failed); });
        kpx_gate_open(gate);
        CHECK(result == KPX_OK || result == KPX_OUT_OF_MEMORY);
        CHECK(download(f.a, y, kWords) == all(result == KPX_OK ? 3 : 1));
        const Storage z = f.tensor(7);
        add_words(f.a, z, z, x, kWords); // after the replay, which read x
        replay(f.b, region);
        CHECK(download(f.a, y, kWords) == all(result == KPX_OK ? 17 : 15));
    });
}

TEST(a_region_without_host_memory_leaves_its_tensors) {
    Fixture f;
    const Storage x = f.tensor(2), y = f.tensor(1);
    at_each_allocation([&](auto make) {
        begin_capture(f.a);
        add_words(f.a, x, y, y, kWords);
        kpx_region *region = nullptr;
        const kpx_result result = make([&](kpx_error *err) { return kpx_capture_end(f.a.get(), &region, err); });
        CHECK(result == KPX_OK || result == KPX_OUT_OF_MEMORY);
        kpx_region_destroy(region);
        CHECK(kpx::tensor_of(x.get())->regions == 0 && kpx::tensor_of(y.get())->regions == 0);
    });
}

// A window that repeats an earlier one, of an op with many operands.
TEST(an_op_without_host_memory_is_not_appended) {
    Fixture f;
    Storage condition = f.tensor(0x01010101), x = f.tensor(5), y = f.tensor(6), out = f.tensor(0);
    kpx_array bools = words_of(condition, kWords, KPX_READ);
    bools.dtype = DT_BOOL;
    const std::vector<kpx_array> operands{bools, words_of(x, kWords, KPX_READ), words_of(y, kWords, KPX_READ),
                                          words_of(out, kWords, KPX_WRITE)};
    const uint32_t unused = 0;
    kpx_error err{};
    wait(f.a, flush(f.a)); // the uploads: a window that has only ops can be repeated
    REQUIRE_OK(append_op(f.a, "where", operands, &unused, 4, &err));
    wait(f.a, flush(f.a));
    at_each_allocation([&](auto make) {
        write_bytes(f.a, out, 0, nullptr, kWords * 4);
        REQUIRE_OK(kpx_upload(f.a.get(), out.get(), &err));
        const uint64_t before = flush(f.a);
        wait(f.a, before);
        std::vector<kpx_array> given = operands;
        const kpx_result result =
            make([&](kpx_error *failed) { return append_op(f.a, "where", std::move(given), &unused, 4, failed); });
        CHECK(result == KPX_OK || result == KPX_OUT_OF_MEMORY);
        const uint64_t after = flush(f.a);
        CHECK(after == before + (result == KPX_OK ? 1 : 0)); // an op that is not appended does not run either
        CHECK(download(f.a, out, kWords) == all(result == KPX_OK ? 5 : 0));
    });
    CHECK(stats_of(f.a).repeated_ops > 0);
}

// Freeing takes no host memory.
TEST(what_goes_without_host_memory_is_freed) {
    Fixture f;
    const uint64_t large = uint64_t(20) << 20; // a block of its own
    Storage x = f.tensor(1), block = new_storage(f.device, large);
    std::vector<Stream> streams;
    std::vector<Read> reads;
    for (int i = 0; i < 8; i++) {
        streams.push_back(new_stream(f.device));
        add_words(streams.back(), x, x, block, kWords);
        reads.push_back(read(streams.back(), block, 0, kWords * 4));
        flush(streams.back());
    }
    begin_capture(f.a);
    add_words(f.a, x, x, block, kWords);
    Region region = end_capture(f.a);
    replay(f.a, region);
    const uint64_t reserved = stats_of(f.device).reserved_bytes;
    {
        const FailingMemory memory(0, FailingMemory::Fails::on);
        region.reset();
        x.reset();
        block.reset();
        streams.clear();
        reads.clear();
        f.a.reset(); // the last owner of the block
    }
    CHECK(stats_of(f.device).reserved_bytes == reserved - large);
    require_usable(f.device, f.b);
}

TEST(a_wrap_without_host_memory_is_no_tensor) {
    const Device device = open_device();
    const uint32_t word = 1;
    at_each_allocation([&](auto make) {
        kpx_tensor *handle = nullptr;
        const kpx_result result =
            make([&](kpx_error *err) { return kpx_tensor_wrap(device.get(), &word, sizeof word, &handle, err); });
        CHECK(result == KPX_OK || result == KPX_OUT_OF_MEMORY);
        kpx_tensor_destroy(handle);
        CHECK(stats_of(device).live_tensors == 0 && stats_of(device).live_bytes == 0);
    });
}
