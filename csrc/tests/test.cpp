#include "test.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <set>

std::vector<Test> &tests() {
    static std::vector<Test> all;
    return all;
}

Register::Register(const char *name, const char *file, void (*run)()) {
    tests().push_back({name, std::filesystem::path(file).stem().string(), run});
}

Device open_as_gpu() {
    setenv("KOMPUTE_GO_FUSION_ON_CPU", "1", 1); // until the test ends: layers open devices of their own
    return open_device();
}

bool is_cpu_driver() {
    kpx_device_info info;
    kpx_error err{};
    REQUIRE_OK(kpx_device_describe(0, &info, &err));
    return info.type == KPX_CPU;
}

bool runs_every_case() {
    return !is_cpu_driver() || std::getenv("KOMPUTE_GO_TEST_WHOLE") != nullptr;
}

Device open_device(uint64_t budget) {
    kpx_device_options options{};
    options.memory_budget = budget;
    return open_device(options);
}

Device open_device(const kpx_device_options &options) {
    kpx_error err{};
    kpx_device *device = nullptr;
    REQUIRE_OK(kpx_device_open(0, &options, &device, &err));
    return Device(device);
}

Device open_without_passes(const char *passes) {
    kpx_device_options options{};
    options.disabled_passes = passes;
    return open_device(options);
}

Storage new_storage(const Device &device, uint64_t bytes) {
    kpx_error err{};
    kpx_tensor *buffer = nullptr;
    REQUIRE_OK(kpx_tensor_create(device.get(), bytes, &buffer, &err));
    return Storage(buffer);
}

Stream new_stream(const Device &device, kpx_stream_kind kind) {
    kpx_error err{};
    kpx_stream *stream = nullptr;
    REQUIRE_OK(kpx_stream_create(device.get(), kind, &stream, &err));
    return Stream(stream);
}

Algorithm new_algorithm(const Device &device, const std::vector<uint32_t> &spirv, uint32_t bindings,
                        const std::vector<uint32_t> &spec, uint32_t push_bytes) {
    kpx_error err{};
    kpx_algorithm *algorithm = nullptr;
    REQUIRE_OK(kpx_algorithm_create(device.get(), spirv.data(), spirv.size(), bindings, spec.data(),
                                    uint32_t(spec.size()), push_bytes, 0, &algorithm, &err));
    return Algorithm(algorithm);
}

kpx_array array_of(const Storage &buffer, uint32_t dtype, const std::vector<int64_t> &shape, kpx_access access) {
    kpx_array array{};
    array.tensor = buffer.get();
    array.dtype = dtype;
    array.access = access;
    array.rank = uint32_t(shape.size());
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
        array.shape[i] = shape[i];
        array.strides[i] = stride;
    }
    return array;
}

kpx_array words_of(const Storage &buffer, int64_t n, kpx_access access) {
    return array_of(buffer, DT_UINT32, {n}, access);
}

kpx_array bytes_of(const Storage &buffer, uint64_t offset, uint64_t n) {
    kpx_array array = words_of(buffer, int64_t(n), KPX_WRITE);
    array.dtype = DT_UINT8;
    array.offset = int64_t(offset);
    return array;
}

void write_bytes(const Stream &stream, const Storage &buffer, uint64_t offset, const void *data, uint64_t n) {
    kpx_error err{};
    const kpx_array view = bytes_of(buffer, offset, n);
    REQUIRE_OK(kpx_tensor_write(&view, stream.get(), data, n, &err));
}

void upload(const Stream &stream, const Storage &buffer, const std::vector<uint32_t> &data) {
    kpx_error err{};
    write_bytes(stream, buffer, 0, data.data(), data.size() * 4);
    REQUIRE_OK(kpx_upload(stream.get(), buffer.get(), &err));
}

Read read(const Stream &stream, const Storage &buffer, uint64_t offset, uint64_t bytes, kpx_read_when when) {
    kpx_error err{};
    kpx_read *made = nullptr;
    REQUIRE_OK(kpx_read_create(buffer.get(), stream.get(), when, offset, bytes, &made, &err));
    return Read(made);
}

std::vector<uint32_t> take(const Read &from, size_t n) {
    kpx_error err{};
    const void *data = nullptr;
    REQUIRE_OK(kpx_read_wait(from.get(), UINT64_MAX, &data, &err));
    std::vector<uint32_t> words(n);
    if (n > 0) {
        memcpy(words.data(), data, n * 4);
    }
    return words;
}

std::vector<uint32_t> download(const Stream &stream, const Storage &buffer, size_t n) {
    return take(read(stream, buffer, 0, n * 4, KPX_READ_SOON), n);
}

void require_usable(const Device &device, const Stream &stream) {
    Storage buffer = new_storage(device, 64);
    upload(stream, buffer, {77});
    CHECK(download(stream, buffer, 1)[0] == 77);
}

uint64_t flush(const Stream &stream) {
    kpx_error err{};
    uint64_t value = 0;
    REQUIRE_OK(kpx_flush(stream.get(), UINT64_MAX, &value, &err));
    return value;
}

kpx_result append_op(const Stream &stream, const char *name, std::vector<kpx_array> arrays, const void *params,
                     uint32_t size, kpx_error *err) {
    for (kpx_array &array : arrays) {
        array.access = &array == &arrays.back() ? KPX_WRITE : KPX_READ;
    }
    return kpx_op(stream.get(), kpx_op_find(name), arrays.data(), uint32_t(arrays.size()), params, size, err);
}

void add_words(const Stream &stream, const Storage &a, const Storage &b, const Storage &out, int64_t n) {
    kpx_error err{};
    const uint32_t kind = 0; // addition
    REQUIRE_OK(append_op(stream, "binary",
                         {words_of(a, n, KPX_READ), words_of(b, n, KPX_READ), words_of(out, n, KPX_WRITE)}, &kind,
                         sizeof kind, &err));
}

void add_one(const Stream &stream, const Algorithm &algorithm, const Storage &x, uint32_t n) {
    kpx_error err{};
    const kpx_array array = words_of(x, n, KPX_READ_WRITE);
    const uint32_t grid[3] = {(n + 63) / 64, 1, 1};
    REQUIRE_OK(kpx_dispatch(stream.get(), algorithm.get(), &array, 1, grid, &n, 4, &err));
}

void begin_capture(const Stream &stream) {
    kpx_error err{};
    REQUIRE_OK(kpx_capture_begin(stream.get(), &err));
}

Region end_capture(const Stream &stream) {
    kpx_error err{};
    kpx_region *region = nullptr;
    REQUIRE_OK(kpx_capture_end(stream.get(), &region, &err));
    return Region(region);
}

uint64_t replay(const Stream &stream, const Region &region, uint32_t times) {
    kpx_error err{};
    uint64_t value = 0;
    REQUIRE_OK(kpx_replay(stream.get(), region.get(), times, UINT64_MAX, &value, &err));
    return value;
}

kpx_result profile(kpx_stream *stream, kpx_region *region, kpx_span *spans, uint64_t n, kpx_span *whole,
                   kpx_error *err) {
    uint64_t value = 0;
    const kpx_profiled what = spans == nullptr ? KPX_PROFILE_WHOLE : KPX_PROFILE_EACH;
    kpx_result result = kpx_profile_start(stream, region, what, &value, err);
    if (result == KPX_OK) {
        result = kpx_wait(stream, value, UINT64_MAX, err);
    }
    return result == KPX_OK ? kpx_profile_times(region, spans, n, whole, err) : result;
}

void wait(const Stream &stream, uint64_t value) {
    kpx_error err{};
    REQUIRE_OK(kpx_wait(stream.get(), value, UINT64_MAX, &err));
}

kpx_region_stats stats_of(const Region &region) {
    kpx_region_stats stats;
    kpx_region_get_stats(region.get(), &stats);
    return stats;
}

std::string describe(const Region &region) {
    std::string text(kpx_region_describe(region.get(), nullptr, 0), '?');
    CHECK(kpx_region_describe(region.get(), &text[0], text.size()) == text.size());
    return text;
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

std::vector<kpx_variant> variants_of(const Device &device, const char *kernel) {
    std::vector<kpx_variant> all(kpx_list_variants(device.get(), nullptr, 0)), out;
    CHECK(kpx_list_variants(device.get(), all.data(), all.size()) == all.size());
    std::copy_if(all.begin(), all.end(), std::back_inserter(out),
                 [&](const kpx_variant &v) { return strcmp(v.kernel, kernel) == 0; });
    CHECK(!out.empty());
    return out;
}

uint32_t Random::next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return uint32_t(state >> 33);
}

// Arguments: names of tests, or of files without ".cpp" for all tests of each; none runs all.
int main(int argc, char **argv) {
    setenv("KOMPUTE_GO_CACHE_DIR", "off", 0); // every run builds its own pipelines, and leaves nothing behind
    int failed = 0, skipped = 0, ran = 0;
    const std::set<std::string> wanted(argv + 1, argv + argc);
    std::set<std::string> unknown = wanted;
    for (const Test &test : tests()) {
        unknown.erase(test.name);
        unknown.erase(test.file);
        if (!wanted.empty() && wanted.count(test.name) == 0 && wanted.count(test.file) == 0) {
            continue;
        }
        ran++;
        unsetenv("KOMPUTE_GO_FUSION_ON_CPU"); // that an earlier test may have set
        std::string why;
        const char *how = "FAILED";
        const auto start = std::chrono::steady_clock::now();
        try {
            test.run();
            how = "ok";
        } catch (const Skipped &skip) {
            how = "skipped";
            skipped++;
            why = skip.reason;
        } catch (const Failure &failure) {
            why = failure.text;
            failed++;
        } catch (const std::exception &e) {
            why = e.what();
            failed++;
        }
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        printf("%-7s %6.2f s  %s%s%s\n", how, took.count(), test.name, why.empty() ? "" : ": ", why.c_str());
        fflush(stdout);
    }
    for (const std::string &name : unknown) {
        printf("FAILED  %s: no such test\n", name.c_str());
        failed++;
    }
    uint64_t messages = 0;
    try {
        messages = stats_of(open_device()).validation_messages;
    } catch (const Failure &failure) {
        printf("FAILED  %s\n", failure.text.c_str());
        failed++;
    }
    printf("%d tests, %d failed, %d skipped, %llu validation messages\n", ran, failed, skipped,
           (unsigned long long)messages);
    return failed == 0 && messages == 0 && ran > 0 ? 0 : 1;
}
