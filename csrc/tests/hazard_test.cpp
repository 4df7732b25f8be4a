// Dependent dispatches wait for each other, independent ones do not.
#include "shaders.hpp"
#include "test.hpp"

static void dispatch(const Stream &stream, const Algorithm &algorithm, const std::vector<kpx_array> &arrays,
                     uint32_t groups, uint32_t push) {
    kpx_error err{};
    const uint32_t grid[3] = {groups, 1, 1};
    REQUIRE_OK(
        kpx_dispatch(stream.get(), algorithm.get(), arrays.data(), uint32_t(arrays.size()), grid, &push, 4, &err));
}

TEST(chained_dispatches_do_not_race) {
    constexpr uint32_t kWords = 10000, kSteps = 200;
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm mix = new_algorithm(device, spirv_mix_neighbours, 2, {}, 4);
    Storage a = new_storage(device, kWords * 4), b = new_storage(device, kWords * 4);
    std::vector<uint32_t> model(kWords);
    Random random{3};
    for (uint32_t &word : model) {
        word = random.next();
    }
    upload(stream, a, model);
    for (uint32_t step = 0; step < kSteps; step++) {
        const Storage &from = step % 2 ? b : a, &to = step % 2 ? a : b;
        dispatch(stream, mix, {words_of(from, kWords, KPX_READ), words_of(to, kWords, KPX_WRITE)}, (kWords + 63) / 64,
                 kWords);
        std::vector<uint32_t> next(kWords);
        for (uint32_t i = 0; i < kWords; i++) {
            next[i] = model[i] + model[(i + 1) % kWords];
        }
        model.swap(next);
    }
    CHECK(download(stream, a, kWords) == model);
    const kpx_stream_stats stats = stats_of(stream);
    CHECK(stats.submits == 1);
    CHECK(stats.barriers == kSteps + 3); // start, one per step, before the download, to the host
}

TEST(work_in_place_is_ordered) {
    constexpr uint32_t kWords = 5000;
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm triple = new_algorithm(device, spirv_add_one, 1, {3}, 4);
    Storage x = new_storage(device, kWords * 4);
    upload(stream, x, std::vector<uint32_t>(kWords, 1));
    uint32_t expected = 1;
    for (int i = 0; i < 100; i++) {
        dispatch(stream, triple, {words_of(x, kWords, KPX_READ_WRITE)}, (kWords + 63) / 64, kWords);
        expected = expected * 3 + 1;
        if (i % 7 == 0) {
            flush(stream); // order holds across submissions too
        }
    }
    CHECK(download(stream, x, kWords) == std::vector<uint32_t>(kWords, expected));
}

TEST(independent_dispatches_need_no_barrier) {
    constexpr uint32_t kWords = 256;
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Algorithm mix = new_algorithm(device, spirv_mix_neighbours, 2, {}, 4);
    Storage shared = new_storage(device, kWords * 4), parts = new_storage(device, 8 * kWords * 4);
    upload(stream, shared, std::vector<uint32_t>(kWords, 1));
    flush(stream);
    const uint64_t before = stats_of(stream).barriers;
    for (int i = 0; i < 8; i++) { // all read one buffer and write their own part of another
        kpx_array out = words_of(parts, kWords, KPX_WRITE);
        out.offset = i * kWords;
        dispatch(stream, mix, {words_of(shared, kWords, KPX_READ), out}, kWords / 64, kWords);
    }
    flush(stream);
    CHECK(stats_of(stream).barriers == before + 1);
    kpx_array first = words_of(parts, kWords, KPX_READ_WRITE), second = first;
    second.offset = kWords;
    dispatch(stream, add, {first}, kWords / 64, kWords);
    dispatch(stream, add, {second}, kWords / 64, kWords);
    dispatch(stream, add, {first}, kWords / 64, kWords); // only this one waits
    flush(stream);
    CHECK(stats_of(stream).barriers == before + 3);
    const std::vector<uint32_t> got = download(stream, parts, 3 * kWords);
    CHECK(got[0] == 4 && got[kWords] == 3 && got[2 * kWords] == 2);
}

TEST(a_write_waits_for_readers) {
    constexpr uint32_t kWords = 100000;
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Algorithm mix = new_algorithm(device, spirv_mix_neighbours, 2, {}, 4);
    Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);
    upload(stream, x, std::vector<uint32_t>(kWords, 10));
    for (uint32_t i = 0; i < 20; i++) {
        dispatch(stream, mix, {words_of(x, kWords, KPX_READ), words_of(y, kWords, KPX_WRITE)}, (kWords + 63) / 64,
                 kWords);
        dispatch(stream, add, {words_of(x, kWords, KPX_READ_WRITE)}, (kWords + 63) / 64, kWords);
    }
    CHECK(download(stream, y, kWords) == std::vector<uint32_t>(kWords, 2 * (10 + 19)));
    CHECK(download(stream, x, kWords) == std::vector<uint32_t>(kWords, 30));
}
