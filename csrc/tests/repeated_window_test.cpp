// Windows that are repeated, in whole or in part, give the right results, and ops
// of a repeated window are not lowered again.
#include "abi/handles.hpp"
#include "test.hpp"
#include "types.h"

namespace {

constexpr uint32_t kWords = 64, kBuffers = 5, kLong = 1 << 18;

// out = a + b, or out[0] = the sum of the whole long buffer, for which the lowering needs scratch memory.
struct Call {
    uint32_t a, b, out;
    bool sum;
};

struct Model {
    Device device = open_device();
    Stream stream = new_stream(device);
    std::vector<Storage> buffers;
    Storage long_one = new_storage(device, kLong * 4);
    std::vector<std::vector<uint32_t>> want;

    Model() {
        for (uint32_t i = 0; i < kBuffers; i++) {
            buffers.push_back(new_storage(device, kWords * 4));
            want.emplace_back(kWords, i + 1);
            upload(stream, buffers[i], want[i]);
        }
        upload(stream, long_one, std::vector<uint32_t>(kLong, 3));
        wait(stream, flush(stream));
    }
    void run(const Call &call) {
        if (!call.sum) {
            add_words(stream, buffers[call.a], buffers[call.b], buffers[call.out], kWords);
            for (uint32_t i = 0; i < kWords; i++) {
                want[call.out][i] = want[call.a][i] + want[call.b][i];
            }
            return;
        }
        kpx_error err{};
        const uint32_t kind = REDUCE_SUM;
        kpx_array in = words_of(long_one, kLong, KPX_READ), out = words_of(buffers[call.out], 1, KPX_WRITE);
        in.rank = 2;
        in.shape[0] = 1, in.shape[1] = kLong;
        in.strides[0] = kLong, in.strides[1] = 1;
        REQUIRE_OK(append_op(stream, "reduce", {in, out}, &kind, sizeof kind, &err));
        want[call.out][0] = 3 * kLong;
    }
    void check() {
        for (uint32_t i = 0; i < kBuffers; i++) {
            CHECK(download(stream, buffers[i], kWords) == want[i]);
        }
    }
};

Call random_call(Random &random) {
    const uint32_t a = random.below(kBuffers), b = random.below(kBuffers), out = random.below(kBuffers);
    return {a, b, out, random.below(4) == 0};
}

} // namespace

TEST(ops_of_a_window_that_comes_again_are_not_lowered) {
    Model model;
    const std::vector<Call> window = {{0, 1, 2, false}, {0, 0, 3, true}, {2, 3, 4, false}, {4, 4, 0, false}};
    for (int round = 0; round < 10; round++) {
        for (const Call &call : window) {
            model.run(call);
        }
        wait(model.stream, flush(model.stream));
    }
    const kpx_stream_stats stats = stats_of(model.stream);
    CHECK(stats.ops == 10 * window.size());
    CHECK(stats.repeated_ops == 9 * window.size());
    model.check();
}

// A repeated window may end earlier, go on longer, or differ in any call; it may be repeated while it still runs;
// and uploads, reads and captures may come in between.
TEST(windows_that_come_again_in_part_do_what_they_should) {
    Random random{11};
    Model model;
    std::vector<std::vector<Call>> windows(4);
    for (std::vector<Call> &window : windows) {
        for (uint32_t n = 2 + random.below(6); n > 0; n--) {
            window.push_back(random_call(random));
        }
    }
    for (int round = 0; round < 400; round++) {
        const std::vector<Call> &window = windows[random.below(uint32_t(windows.size()))];
        const uint32_t change = random.below(3) == 0 ? random.below(uint32_t(window.size())) : UINT32_MAX;
        for (uint32_t i = 0; i < window.size(); i++) {
            if (i == change) {
                switch (random.below(4)) {
                case 0:
                    model.run(random_call(random));
                    break;
                case 1:
                    flush(model.stream);
                    break;
                case 2: {
                    const uint32_t to = random.below(kBuffers);
                    model.want[to].assign(kWords, uint32_t(round));
                    upload(model.stream, model.buffers[to], model.want[to]);
                    break;
                }
                default: {
                    const uint32_t from = random.below(kBuffers);
                    CHECK(download(model.stream, model.buffers[from], kWords) == model.want[from]);
                }
                }
            }
            model.run(window[i]);
        }
        const uint64_t value = flush(model.stream);
        if (random.below(2) == 0) {
            wait(model.stream, value);
        }
        if (round % 40 == 39) {
            model.check();
        }
    }
    const kpx_stream_stats stats = stats_of(model.stream);
    CHECK(stats.repeated_ops > stats.ops / 10 && stats.repeated_ops < stats.ops);
    model.check();
}

// The same calls on other memory, or with another parameter, are other work.
TEST(calls_on_other_memory_are_lowered) {
    Model model;
    for (uint32_t out = 0; out < kBuffers; out++) {
        model.run({0, 1, out, false});
        wait(model.stream, flush(model.stream));
    }
    CHECK(stats_of(model.stream).repeated_ops == 0);
    model.check();
}

// Timed windows are recorded with timestamps, and lowered for it.
TEST(windows_that_come_again_can_be_timed) {
    Model model;
    kpx_error err{};
    for (int round = 0; round < 6; round++) {
        if (round == 3) {
            const kpx_result result = kpx_stream_time_ops(model.stream.get(), KPX_TIME_SUMS, &err);
            if (result == KPX_UNSUPPORTED) {
                return;
            }
            REQUIRE_OK(result);
        }
        model.run({0, 1, 2, false});
        model.run({2, 2, 3, false});
        wait(model.stream, flush(model.stream));
    }
    kpx_op_time times[4];
    CHECK(kpx_stream_get_op_times(model.stream.get(), times, 4) == 1);
    CHECK(times[0].calls == 6 && times[0].dispatches == 6);
    model.check();
}

// Views of five axes that cannot be joined, so that the op copies them.
static kpx_array with_gaps(const Storage &buffer, uint32_t dtype, int64_t run) {
    kpx_array view = array_of(buffer, dtype, {2, 2, 2, 2, run});
    for (uint32_t axis = 4; axis-- > 0;) {
        view.strides[axis] = view.strides[axis + 1] * view.shape[axis + 1] + 16;
    }
    return view;
}

TEST(a_repeated_op_without_memory_keeps_none) {
    constexpr int64_t kRun = (17 << 20) / 16, kElements = 16 * kRun, kExtent = kElements + 1024;
    constexpr uint64_t kBytes = uint64_t(kElements), kRoom = uint64_t(8) << 20; // of the condition; for what is small
    kpx_error err{};
    const uint64_t operands = kExtent + 4 * kExtent + 4 * kBytes, scratch = kBytes + 4 * kBytes;
    const Device device = open_device(operands + scratch + kRoom);
    const Stream stream = new_stream(device);
    const Storage c = new_storage(device, kExtent), a = new_storage(device, 4 * kExtent),
                  out = new_storage(device, 4 * kBytes);
    const auto choose = [&] {
        const uint32_t unused = 0;
        return append_op(stream, "where",
                         {with_gaps(c, DT_BOOL, kRun), with_gaps(a, DT_FLOAT32, kRun),
                          array_of(out, DT_FLOAT32, {2, 2, 2, 2, kRun}), array_of(out, DT_FLOAT32, {2, 2, 2, 2, kRun})},
                         &unused, sizeof unused, &err);
    };
    const auto fill = [&](const Storage &buffer, uint64_t bytes) {
        const uint32_t bits = 7;
        return append_op(stream, "fill", {array_of(buffer, DT_UINT8, {int64_t(bytes)})}, &bits, sizeof bits, &err);
    };
    REQUIRE_OK(choose());
    wait(stream, flush(stream));
    const Storage large = new_storage(device, 4 * kBytes), small = new_storage(device, kBytes);
    REQUIRE_OK(fill(large, 4 * kBytes)); // in the place of the second copy
    wait(stream, flush(stream));
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, choose());
    REQUIRE_OK(fill(small, kBytes)); // in the place of the first one
}
