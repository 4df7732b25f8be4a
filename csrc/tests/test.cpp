#include "test.hpp"

#include <cstdio>
#include <cstring>
#include <exception>

std::vector<Test> &tests() {
    static std::vector<Test> all;
    return all;
}

Device open_device(uint64_t budget) {
    kpx_error err{};
    kpx_device *device = nullptr;
    REQUIRE_OK(kpx_device_open(0, budget, &device, &err));
    return Device(device);
}

Buffer new_buffer(const Device &device, uint64_t bytes) {
    kpx_error err{};
    kpx_buffer *buffer = nullptr;
    REQUIRE_OK(kpx_buffer_create(device.get(), bytes, &buffer, &err));
    return Buffer(buffer);
}

Stream new_stream(const Device &device) {
    kpx_error err{};
    kpx_stream *stream = nullptr;
    REQUIRE_OK(kpx_stream_create(device.get(), &stream, &err));
    return Stream(stream);
}

Algorithm new_algorithm(const Device &device, const std::vector<uint32_t> &spirv, uint32_t bindings,
                        const std::vector<uint32_t> &spec, uint32_t push_bytes) {
    kpx_error err{};
    kpx_algorithm *algorithm = nullptr;
    REQUIRE_OK(kpx_algorithm_create(device.get(), spirv.data(), spirv.size(), bindings, spec.data(),
                                    uint32_t(spec.size()), push_bytes, &algorithm, &err));
    return Algorithm(algorithm);
}

kpx_array words_of(const Buffer &buffer, int64_t n, kpx_access access) {
    kpx_array array{};
    array.buffer = buffer.get();
    array.dtype = KPX_UINT32;
    array.access = access;
    array.rank = 1;
    array.shape[0] = n;
    array.strides[0] = 1;
    return array;
}

void upload(const Stream &stream, const Buffer &buffer, const std::vector<uint32_t> &data) {
    kpx_error err{};
    REQUIRE_OK(kpx_upload(stream.get(), buffer.get(), 0, data.data(), data.size() * 4, &err));
}

std::vector<uint32_t> download(const Stream &stream, const Buffer &buffer, size_t n) {
    kpx_error err{};
    std::vector<uint32_t> data(n);
    REQUIRE_OK(kpx_download(stream.get(), buffer.get(), 0, data.data(), n * 4, &err));
    return data;
}

uint64_t flush(const Stream &stream) {
    kpx_error err{};
    uint64_t value = 0;
    REQUIRE_OK(kpx_flush(stream.get(), &value, &err));
    return value;
}

kpx_stream_stats stats_of(const Stream &stream) {
    kpx_stream_stats stats;
    kpx_stream_get_stats(stream.get(), &stats);
    return stats;
}

kpx_device_stats stats_of(const Device &device) {
    kpx_device_stats stats;
    kpx_device_get_stats(device.get(), &stats);
    return stats;
}

uint32_t Random::next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return uint32_t(state >> 33);
}

// Arguments: names of tests; none runs all.
int main(int argc, char **argv) {
    int failed = 0, ran = 0;
    for (const Test &test : tests()) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; i++) {
            wanted = wanted || strcmp(argv[i], test.name) == 0;
        }
        if (!wanted) {
            continue;
        }
        ran++;
        std::string why;
        try {
            test.run();
        } catch (const Failure &failure) {
            why = failure.text;
        } catch (const std::exception &e) {
            why = e.what();
        }
        printf("%-7s %s%s%s\n", why.empty() ? "ok" : "FAILED", test.name, why.empty() ? "" : ": ", why.c_str());
        fflush(stdout);
        failed += !why.empty();
    }
    uint64_t messages = 0;
    try {
        messages = stats_of(open_device()).validation_messages;
    } catch (const Failure &failure) {
        printf("FAILED  %s\n", failure.text.c_str());
        failed++;
    }
    printf("%d tests, %d failed, %llu validation messages\n", ran, failed, (unsigned long long)messages);
    return failed == 0 && messages == 0 && ran > 0 ? 0 : 1;
}
