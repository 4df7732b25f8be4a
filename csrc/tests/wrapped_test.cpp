// Wrapped memory whose upload was refused, and whose handle is destroyed before it is repeated.
#include <algorithm>

#include "failing.hpp"
#include "test.hpp"

namespace {

constexpr int64_t kFew = 64;
constexpr int64_t kMany = 36 << 18; // takes more than one window to upload

VkResult no_submit(VkQueue, uint32_t, const VkSubmitInfo *, VkFence) {
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

struct Fixture {
    kpx_error err{};
    uint64_t value = 0;
    Device device = open_device();
    Stream a = new_stream(device), b = new_stream(device);
    Storage y = new_storage(device, kFew * 4);
    std::vector<uint32_t> memory;
    Storage wrapped;

    explicit Fixture(int64_t words) : memory(size_t(words), 5) {
        // What is freed here would be the content that nobody uploads.
        Storage garbage = new_storage(device, uint64_t(words) * 4);
        upload(a, garbage, std::vector<uint32_t>(size_t(words), 0xdead));
        wait(a, flush(a));
        garbage.reset();
        kpx_tensor *handle = nullptr;
        REQUIRE_OK(kpx_tensor_wrap(device.get(), memory.data(), memory.size() * 4, &handle, &err));
        wrapped.reset(handle);
    }
    // y = 2 times the last words
    void capture() {
        begin_capture(a);
        kpx_array in = words_of(wrapped, kFew, KPX_READ);
        in.offset = int64_t(memory.size()) - kFew;
        const uint32_t addition = 0;
        REQUIRE_OK(append_op(a, "binary", {in, in, words_of(y, kFew, KPX_WRITE)}, &addition, 4, &err));
    }
    void refuse() {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_flush(a.get(), UINT64_MAX, &value, &err));
        CHECK(err.of_window == 0);
    }
    void close() {
        wrapped.reset();
        std::fill(memory.begin(), memory.end(), 6u);
    }
    void require_error(const Region &region) {
        for (int i = 0; i < 2; i++) {
            err = {};
            const kpx_result result = kpx_replay(a.get(), region.get(), 1, UINT64_MAX, &value, &err);
            if (result == KPX_OK) {
                throw Failure{"the replay succeeded: it read " + std::to_string(download(b, y, 1)[0] / 2)};
            }
            CHECK(result == KPX_INVALID && err.of_content == 1 && err.message[0] != 0);
        }
    }
};

} // namespace

// The upload is refused during the capture, and what is destroyed then is not the region's own.
TEST(wrapped_memory_that_goes_during_a_capture) {
    Fixture f(kFew);
    f.capture();
    f.refuse();
    CHECK(download(f.b, f.wrapped, kFew)[0] == 5); // the host's copy
    f.close();
    f.require_error(end_capture(f.a));
}

// The upload is refused again when the region is replayed.
TEST(wrapped_memory_that_goes_after_a_refused_replay) {
    Fixture f(kFew);
    kpx_error &err = f.err;
    f.capture();
    f.refuse();
    const Region region = end_capture(f.a);
    {
        FAILING(vkQueueSubmit, no_submit);
        REQUIRE_CODE(KPX_OUT_OF_MEMORY, kpx_replay(f.a.get(), region.get(), 1, UINT64_MAX, &f.value, &err));
    }
    CHECK(download(f.b, f.wrapped, kFew)[0] == 5);
    f.close();
    f.require_error(region);
}

// A part of it has been uploaded.
TEST(wrapped_memory_that_goes_after_a_part_of_its_upload) {
    Fixture f(kMany);
    f.capture();
    f.refuse();
    const Region region = [&] {
        FAILING(vkQueueSubmit, no_submit); // of the upload for the first replay
        return end_capture(f.a);
    }();
    f.close();
    f.require_error(region);
}

// It need not stay if it is on the device.
TEST(wrapped_memory_that_goes_after_its_upload) {
    for (const int64_t words : {kFew, kMany}) {
        Fixture f(words);
        f.capture();
        f.refuse();
        const Region region = end_capture(f.a);
        f.close();
        replay(f.a, region);
        CHECK(download(f.b, f.y, 1)[0] == 10);
    }
    Fixture f(kFew);
    f.capture();
    f.close();
    const Region region = end_capture(f.a);
    replay(f.b, region);
    CHECK(download(f.b, f.y, 1)[0] == 10);
}
