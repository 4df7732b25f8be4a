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

TEST(bytes_come_back) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    for (size_t bytes : {1, 2, 3, 4, 5, 7, 63, 64, 255, 257, 1023, 65535, 65537, 262143, 1000003}) {
        Buffer buffer = new_buffer(device, bytes);
        const std::vector<uint8_t> data = pattern(bytes, uint32_t(bytes));
        std::vector<uint8_t> back(bytes);
        REQUIRE_OK(kpx_upload(stream.get(), buffer.get(), 0, data.data(), bytes, &err));
        REQUIRE_OK(kpx_download(stream.get(), buffer.get(), 0, back.data(), bytes, &err));
        CHECK(back == data);
    }
}

TEST(partial_writes_keep_their_neighbours) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    constexpr size_t kBytes = 1031;
    Buffer buffer = new_buffer(device, kBytes);
    std::vector<uint8_t> model = pattern(kBytes, 1);
    REQUIRE_OK(kpx_upload(stream.get(), buffer.get(), 0, model.data(), kBytes, &err));
    Random random{7};
    for (int round = 0; round < 100; round++) {
        const size_t offset = random.below(kBytes);
        const size_t bytes = random.below(uint32_t(kBytes - offset) + 1);
        const std::vector<uint8_t> data = pattern(bytes, uint32_t(round) + 100);
        REQUIRE_OK(kpx_upload(stream.get(), buffer.get(), offset, data.data(), bytes, &err));
        if (bytes > 0) {
            memcpy(model.data() + offset, data.data(), bytes);
        }
        const size_t from = random.below(kBytes);
        std::vector<uint8_t> part(kBytes - from);
        REQUIRE_OK(kpx_download(stream.get(), buffer.get(), from, part.data(), part.size(), &err));
        CHECK(memcmp(part.data(), model.data() + from, part.size()) == 0);
    }
}

TEST(large_transfers_go_in_chunks) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    constexpr size_t kBytes = (size_t(100) << 20) + 13;
    Buffer buffer = new_buffer(device, kBytes);
    const std::vector<uint8_t> data = pattern(kBytes, 3);
    REQUIRE_OK(kpx_upload(stream.get(), buffer.get(), 0, data.data(), kBytes, &err));
    std::vector<uint8_t> back(kBytes - 5);
    REQUIRE_OK(kpx_download(stream.get(), buffer.get(), 5, back.data(), back.size(), &err));
    CHECK(memcmp(back.data(), data.data() + 5, back.size()) == 0);
    const kpx_stream_stats stats = stats_of(stream);
    CHECK(stats.uploads == 1 && stats.upload_bytes == kBytes);
    CHECK(stats.downloads == 1 && stats.download_bytes == back.size());
}

TEST(small_uploads_share_a_submission) {
    Device device = open_device();
    Stream stream = new_stream(device);
    std::vector<Buffer> buffers;
    for (uint32_t i = 0; i < 50; i++) {
        buffers.push_back(new_buffer(device, 100));
        upload(stream, buffers.back(), {i, i + 1});
    }
    flush(stream);
    const kpx_stream_stats stats = stats_of(stream);
    CHECK(stats.submits == 1);
    CHECK(stats.barriers == 1); // the one that every recording starts with
    for (uint32_t i = 0; i < 50; i++) {
        CHECK((download(stream, buffers[i], 2) == std::vector<uint32_t>{i, i + 1}));
    }
}

TEST(transfers_outside_the_buffer_are_refused) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Buffer buffer = new_buffer(device, 10);
    uint8_t data[16] = {};
    REQUIRE_CODE(KPX_INVALID, kpx_upload(stream.get(), buffer.get(), 0, data, 11, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_upload(stream.get(), buffer.get(), 11, data, 0, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_upload(stream.get(), buffer.get(), 4, data, UINT64_MAX, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_download(stream.get(), buffer.get(), 9, data, 2, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_upload(stream.get(), buffer.get(), 0, nullptr, 4, &err));
    REQUIRE_OK(kpx_upload(stream.get(), buffer.get(), 10, nullptr, 0, &err));
    REQUIRE_OK(kpx_download(stream.get(), buffer.get(), 0, nullptr, 0, &err));
}
