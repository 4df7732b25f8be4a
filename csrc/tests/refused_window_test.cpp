// Windows that the driver refuses: nothing in them counts as done.
#include <algorithm>

#include "failing.hpp"
#include "test.hpp"

namespace {

constexpr uint32_t kWords = 64;

VkResult no_submit(VkQueue, uint32_t, const VkSubmitInfo *, VkFence) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

VkResult no_sets(VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *) {
    return VK_ERROR_OUT_OF_POOL_MEMORY;
}

std::vector<uint32_t> filled(uint32_t value) {
    return std::vector<uint32_t>(kWords, value);
}

struct Fixture {
    kpx_error err{};
    uint64_t value = 0;
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device), transfers = new_stream(device, KPX_STREAM_TRANSFERS);
    Storage x = new_storage(device, kWords * 4), y = new_storage(device, kWords * 4);

    Fixture() { write(x, 3); }
    void write(const Storage &to, uint32_t word) {
        const std::vector<uint32_t> data = filled(word);
        write_bytes(a, to, 0, data.data(), data.size() * 4);
    }
    void require_nothing_pending(const Stream &stream) {
        const uint64_t submits = stats_of(stream).submits;
        flush(stream);
        CHECK(stats_of(stream).submits == submits);
    }
    void require_refused_content(const Stream &stream, const Storage &of) {
        kpx_read *made = nullptr;
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_read_create(of.get(), stream.get(), KPX_READ_SOON, 0, 4, &made, &err));
        CHECK(err.of_content == 1);
    }
};

} // namespace

TEST(a_refused_flush_makes_uploads_again_and_leaves_errors_in_results) {
    Fixture f;
    kpx_error &err = f.err;
    add_words(f.a, f.x, f.x, f.y, kWords);
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
        CHECK(err.of_content == 0 && err.of_window == 1);
    }
    flush(f.a); // reported already
    f.require_refused_content(f.a, f.y);
    f.require_refused_content(f.b, f.y);
    kpx_array half = words_of(f.y, kWords / 2, KPX_WRITE);
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_tensor_write(&half, f.b.get(), nullptr, 0, &err));
    REQUIRE_CODE(
        KPX_OUT_OF_MEMORY,
        append_op(f.b, "copy", {words_of(f.y, kWords, KPX_READ), words_of(f.x, kWords, KPX_WRITE)}, &f.value, 4, &err));
    CHECK(err.of_content == 1);
    CHECK(download(f.b, f.x, kWords) == filled(3)); // which was not affected
    Storage z = new_storage(f.device, kWords * 4);
    add_words(f.b, f.x, f.x, z, kWords);
    CHECK(download(f.b, z, kWords) == filled(6) && stats_of(f.b).uploads == 1);
    add_words(f.b, f.x, f.x, f.y, kWords); // written again, by an op
    CHECK(download(f.a, f.y, kWords) == filled(6));
}

TEST(a_host_write_after_the_op_outlives_the_ops_refusal) {
    Fixture f;
    kpx_error &err = f.err;
    add_words(f.a, f.x, f.x, f.y, kWords);
    f.write(f.y, 8);
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
    }
    CHECK(download(f.b, f.y, kWords) == filled(8));
    add_words(f.b, f.y, f.y, f.x, kWords);
    CHECK(download(f.b, f.x, kWords) == filled(16));
}

TEST(a_refusal_that_another_stream_caused_is_reported_once) {
    Fixture f;
    kpx_error &err = f.err;
    add_words(f.a, f.x, f.x, f.y, kWords);
    {
        FAILING(vkQueueSubmit, no_submit); // b's read needs work that a has not submitted
        f.require_refused_content(f.b, f.y);
    }
    flush(f.b); // the error is not b's
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
    CHECK(err.of_content == 0 && err.of_window == 1);
    flush(f.a);
    add_words(f.transfers, f.x, f.x, f.y, kWords);
    {
        FAILING(vkQueueSubmit, no_submit);
        f.require_refused_content(f.b, f.y);
    }
    flush(f.transfers); // whose errors are reported only by its reads
}

TEST(a_refusal_that_a_read_of_the_stream_reports_is_not_reported_again) {
    Fixture f;
    add_words(f.a, f.x, f.x, f.y, kWords);
    {
        FAILING(vkQueueSubmit, no_submit);
        f.require_refused_content(f.a, f.y);
        CHECK(f.err.of_window == 1);
    }
    flush(f.a);
    add_words(f.a, f.x, f.x, f.y, kWords);
    const Read later = read(f.a, f.y, 0, 4);
    kpx_error &err = f.err;
    const void *data = nullptr;
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_read_wait(later.get(), UINT64_MAX, &data, &err));
    }
    // That call names no stream.
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
    flush(f.a);
}

TEST(refused_uploads_are_no_loss) {
    Fixture f;
    kpx_error &err = f.err;
    REQUIRE_OK(kpx_upload(f.a.get(), f.x.get(), &err));
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
        CHECK(err.of_window == 0);
    }
    flush(f.a);
    add_words(f.a, f.x, f.x, f.y, kWords);
    CHECK(download(f.b, f.y, kWords) == filled(6));
}

// Content that only the device has, of which the host writes a part: there is nothing to repeat that from.
TEST(a_refused_write_of_a_part_is_a_loss) {
    Fixture f;
    kpx_error &err = f.err;
    add_words(f.a, f.x, f.x, f.y, kWords);
    wait(f.a, flush(f.a));
    const std::vector<uint32_t> half(kWords / 2, 9);
    const kpx_array view = words_of(f.y, kWords / 2, KPX_WRITE);
    {
        FAILING(vkQueueSubmit, no_submit); // the call's own error, for others use that stream too
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_tensor_write(&view, f.transfers.get(), half.data(), kWords * 2, &err));
    }
    CHECK(download(f.b, f.y, kWords) == filled(6)); // as if it had not been called
    add_words(f.a, f.x, f.x, f.y, kWords);
    wait(f.a, flush(f.a));
    REQUIRE_OK(kpx_tensor_write(&view, f.a.get(), half.data(), kWords * 2, &err));
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
        CHECK(err.of_window == 1);
    }
    f.require_refused_content(f.b, f.y);
}

TEST(a_written_part_is_under_way_when_the_call_returns) {
    Fixture f;
    kpx_error &err = f.err;
    add_words(f.a, f.x, f.x, f.y, kWords);
    const std::vector<uint32_t> half(kWords / 2, 9);
    const kpx_array view = words_of(f.y, kWords / 2, KPX_WRITE);
    REQUIRE_OK(kpx_tensor_write(&view, f.transfers.get(), half.data(), kWords * 2, &err));
    f.require_nothing_pending(f.transfers);
    std::vector<uint32_t> expected = filled(6);
    std::copy(half.begin(), half.end(), expected.begin());
    CHECK(download(f.b, f.y, kWords) == expected);
}

// A call that submits earlier work, and one that does not.
TEST(a_call_says_whether_earlier_work_is_lost_with_it) {
    Fixture f;
    begin_capture(f.a);
    add_words(f.a, f.x, f.y, f.y, kWords);
    const Region region = end_capture(f.a);
    replay(f.a, region);
    kpx_error &err = f.err;
    const auto lost = [&] {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_replay(f.a.get(), region.get(), 1, UINT64_MAX, &f.value, &err));
        return err.of_window == 1;
    };
    CHECK(!lost());
    Storage z = new_storage(f.device, kWords * 4);
    add_words(f.a, f.x, f.x, z, kWords);
    CHECK(lost());
    f.require_refused_content(f.b, z);
}

TEST(a_refused_replay_counts_as_none) {
    Fixture f;
    kpx_error &err = f.err;
    f.write(f.y, 1);
    begin_capture(f.a);
    add_words(f.a, f.x, f.y, f.y, kWords);
    const Region region = end_capture(f.a);
    const auto fails = [&] {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_replay(f.a.get(), region.get(), 1, UINT64_MAX, &f.value, &err));
    };
    fails(); // also of uploads
    replay(f.a, region);
    replay(f.a, region);
    fails(); // of a steady replay
    f.write(f.x, 10);
    fails();
    CHECK(download(f.b, f.y, kWords) == filled(7));
    replay(f.b, region);
    CHECK(download(f.b, f.y, kWords) == filled(17));
}

TEST(a_refused_hold_holds_nothing) {
    Fixture f;
    kpx_error &err = f.err;
    kpx_gate *gate = nullptr;
    add_words(f.a, f.x, f.x, f.y, kWords);
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_stream_hold(f.a.get(), &gate, &err));
    }
    CHECK(gate == nullptr);
    f.require_refused_content(f.b, f.y);
    add_words(f.a, f.x, f.x, f.y, kWords);
    const uint64_t value = flush(f.a);
    REQUIRE_OK(kpx_wait(f.a.get(), value, UINT64_MAX, &err));
    CHECK(download(f.b, f.y, kWords) == filled(6));
}

// The stream still waits for what the refused window should have waited for.
TEST(a_refused_window_forgets_no_gate) {
    Fixture f;
    kpx_error &err = f.err;
    kpx_gate *gate = nullptr;
    CHECK(download(f.a, f.x, 1)[0] == 3);
    begin_capture(f.a);
    add_words(f.a, f.x, f.x, f.y, kWords);
    const Region region = end_capture(f.a);
    add_words(f.b, f.x, f.x, f.y, kWords);
    wait(f.b, flush(f.b));
    REQUIRE_OK(kpx_stream_hold(f.a.get(), &gate, &err));
    {
        FAILING(vkAllocateDescriptorSets, no_sets);
        add_words(f.a, f.y, f.y, f.x, kWords);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
    }
    Storage z = new_storage(f.device, kWords * 4);
    add_words(f.a, f.y, f.y, z, kWords);
    const uint64_t value = flush(f.a);
    REQUIRE_CODE(KPX_TIMEOUT, kpx_wait(f.a.get(), value, 20'000'000, &err));
    kpx_gate_open(gate);
    CHECK(download(f.b, z, kWords) == filled(12));
}

namespace {

// A tensor that takes more than one window to upload, the first of which is behind a gate.
constexpr int64_t kMany = 36 << 18;
struct Large : Fixture {
    Storage large = new_storage(device, kMany * 4);
    kpx_gate *gate = nullptr;

    // large = 2 x, by that stream
    void fill(const Stream &stream) {
        kpx_array in = words_of(x, kMany, KPX_READ);
        in.strides[0] = 0;
        const uint32_t addition = 0;
        REQUIRE_OK(append_op(stream, "binary", {in, in, words_of(large, kMany, KPX_WRITE)}, &addition, 4, &err));
    }
    void refuse() {
        FAILING(vkAllocateDescriptorSets, no_sets);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(a.get(), UINT64_MAX, &value, &err));
    }
    // b writes it after the pieces that a has submitted.
    void require_order() {
        fill(b);
        const uint64_t filled_at = flush(b), copied_at = flush(a);
        const kpx_result early = kpx_wait(b.get(), filled_at, 50'000'000, &err);
        kpx_gate_open(gate);
        CHECK(early == KPX_TIMEOUT);
        wait(a, copied_at);
        CHECK(download(b, large, kWords) == filled(6));
    }
};

} // namespace

TEST(a_writer_follows_the_submitted_pieces_of_a_refused_upload) {
    Large f;
    kpx_error &err = f.err;
    write_bytes(f.a, f.large, 0, std::vector<uint32_t>(kMany, 1).data(), kMany * 4);
    REQUIRE_OK(kpx_stream_hold(f.a.get(), &f.gate, &err));
    add_words(f.a, f.large, f.large, f.y, kWords);
    f.refuse();
    f.require_order();
}

TEST(a_writer_follows_the_submitted_pieces_of_a_refused_write) {
    Large f;
    kpx_error &err = f.err;
    f.fill(f.a);
    wait(f.a, flush(f.a)); // only the device has it
    REQUIRE_OK(kpx_stream_hold(f.a.get(), &f.gate, &err));
    kpx_array parts = words_of(f.large, kMany / 2 - 1, KPX_WRITE); // two pieces, the second of which is refused
    parts.rank = 2;
    parts.shape[1] = parts.shape[0];
    parts.shape[0] = 2;
    parts.strides[0] = kMany / 2;
    parts.strides[1] = 1;
    REQUIRE_OK(kpx_tensor_write(&parts, f.a.get(), nullptr, 0, &err));
    f.refuse();
    f.require_order();
}

TEST(a_mapped_tensor_can_be_written_after_a_refusal) {
    Fixture f;
    kpx_error &err = f.err;
    kpx_tensor *handle = nullptr;
    void *memory = nullptr;
    REQUIRE_OK(kpx_tensor_create_mapped(f.device.get(), kWords * 4, &handle, &memory, &err));
    const Storage mapped(handle);
    add_words(f.a, f.x, f.x, mapped, kWords);
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(f.a.get(), UINT64_MAX, &f.value, &err));
    }
    f.require_refused_content(f.a, mapped);
    const kpx_array half = words_of(mapped, kWords / 2, KPX_WRITE);
    REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_tensor_write(&half, f.a.get(), nullptr, 0, &err));
    f.write(mapped, 5);
    CHECK(download(f.b, mapped, kWords) == filled(5));
    CHECK(static_cast<const uint32_t *>(memory)[kWords - 1] == 5);
}
