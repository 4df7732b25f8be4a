// Uploads and downloads: any size, any offset, any number of chunks.
#include <cstring>

#include "test.hpp"

static std::vector<uint8_t> pattern(size_t bytes, uint32_t seed) {
    Random random{seed};
    std::vector<uint8_t> data(bytes);
    for (uint8_t &byte : data) {
        byte = uint8_t(random.next());
    }
    return data;
}

static void read_bytes(const Stream &stream, const Storage &buffer, uint64_t offset, void *out, uint64_t n) {
    kpx_error err{};
    const void *data = nullptr;
    const Read made = read(stream, buffer, offset, n, KPX_READ_SOON);
    REQUIRE_OK(kpx_read_wait(made.get(), UINT64_MAX, &data, &err));
    if (n > 0) {
        memcpy(out, data, n);
    }
    CHECK(n == 0 || kpx_read_moved(made.get()) != 0);
}

// Has an op rewrite a byte with its own value, so that the host's copy becomes stale.
static void stay_on_device(const Stream &stream, const Storage &buffer, uint64_t bytes) {
    kpx_error err{};
    kpx_array in = bytes_of(buffer, bytes - 1, 1), out = in;
    const uint32_t unused = 0;
    REQUIRE_OK(append_op(stream, "copy", {in, out}, &unused, 4, &err));
}

TEST(bytes_come_back) {
    Device device = open_device();
    Stream stream = new_stream(device);
    for (size_t bytes : {1, 2, 3, 4, 5, 7, 63, 64, 255, 257, 1023, 65535, 65537, 262143, 1000003}) {
        Storage buffer = new_storage(device, bytes);
        const std::vector<uint8_t> data = pattern(bytes, uint32_t(bytes));
        std::vector<uint8_t> back(bytes);
        write_bytes(stream, buffer, 0, data.data(), bytes);
        stay_on_device(stream, buffer, bytes);
        read_bytes(stream, buffer, 0, back.data(), bytes);
        CHECK(back == data);
    }
}

TEST(partial_writes_keep_their_neighbours) {
    Device device = open_device();
    Stream stream = new_stream(device);
    constexpr size_t kBytes = 1031;
    Storage buffer = new_storage(device, kBytes);
    std::vector<uint8_t> model = pattern(kBytes, 1);
    write_bytes(stream, buffer, 0, model.data(), kBytes);
    stay_on_device(stream, buffer, kBytes);
    Random random{7};
    for (int round = 0; round < 100; round++) {
        const size_t offset = random.below(kBytes);
        const size_t bytes = random.below(uint32_t(kBytes - offset) + 1);
        const std::vector<uint8_t> data = pattern(bytes, uint32_t(round) + 100);
        write_bytes(stream, buffer, offset, data.data(), bytes);
        if (bytes > 0) {
            memcpy(model.data() + offset, data.data(), bytes);
        }
        const size_t from = random.below(kBytes);
        std::vector<uint8_t> part(kBytes - from);
        read_bytes(stream, buffer, from, part.data(), part.size());
        CHECK(memcmp(part.data(), model.data() + from, part.size()) == 0);
    }
}

TEST(large_transfers_go_in_chunks) {
    Device device = open_device();
    Stream stream = new_stream(device);
    constexpr size_t kBytes = (size_t(100) << 20) + 13;
    Storage buffer = new_storage(device, kBytes);
    const std::vector<uint8_t> data = pattern(kBytes, 3);
    write_bytes(stream, buffer, 0, data.data(), kBytes);
    stay_on_device(stream, buffer, kBytes);
    std::vector<uint8_t> back(kBytes - 5);
    read_bytes(stream, buffer, 5, back.data(), back.size());
    CHECK(memcmp(back.data(), data.data() + 5, back.size()) == 0);
    const kpx_stream_stats stats = stats_of(stream);
    CHECK(stats.uploads == 1 && stats.upload_bytes == kBytes);
}

TEST(small_uploads_share_a_submission) {
    Device device = open_device();
    Stream stream = new_stream(device);
    std::vector<Storage> buffers;
    for (uint32_t i = 0; i < 50; i++) {
        buffers.push_back(new_storage(device, 100));
        upload(stream, buffers.back(), {i, i + 1});
    }
    flush(stream);
    const kpx_stream_stats stats = stats_of(stream);
    CHECK(stats.submits == 1 && stats.uploads == 50);
    CHECK(stats.barriers == 1); // the one at the start of every recording
    for (uint32_t i = 0; i < 50; i++) {
        CHECK((download(stream, buffers[i], 2) == std::vector<uint32_t>{i, i + 1}));
    }
}

TEST(transfers_outside_the_buffer_are_refused) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 10);
    uint8_t data[16] = {};
    const auto write = [&](uint64_t offset, uint64_t n) {
        const kpx_array view = bytes_of(buffer, offset, n);
        return kpx_tensor_write(&view, stream.get(), data, n, &err);
    };
    kpx_read *made = nullptr;
    REQUIRE_CODE(KPX_INVALID, write(0, 11));
    const kpx_array whole = bytes_of(buffer, 0, 10);
    for (uint64_t n : {0, 1, 9, 11}) { // not as many bytes as the view has
        REQUIRE_CODE(KPX_INVALID, kpx_tensor_write(&whole, stream.get(), data, n, &err));
    }
    REQUIRE_CODE(KPX_INVALID, write(11, 0));
    REQUIRE_CODE(KPX_INVALID, write(4, UINT64_MAX));
    REQUIRE_CODE(KPX_INVALID, write(4, INT64_MAX));
    REQUIRE_CODE(KPX_INVALID, kpx_read_create(buffer.get(), stream.get(), KPX_READ_SOON, 9, 2, &made, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_read_create(buffer.get(), stream.get(), KPX_READ_SOON, 1, UINT64_MAX, &made, &err));
    CHECK(made == nullptr);
    REQUIRE_OK(write(10, 0));
    read(stream, buffer, 0, 0);
    read(stream, buffer, 10, 0);
}
