// A test is a function; CHECK and REQUIRE_OK report where and what. Handles are
// freed by their owners, so that a failed test leaves nothing behind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "abi/kpx.h"
#include "gen_kinds.h"

struct Failure {
    std::string text;
};

// What a test throws where the driver lacks what it is about.
struct Skipped {
    std::string reason;
};

struct Test {
    const char *name;
    std::string file; // without folder and extension
    void (*run)();
};
std::vector<Test> &tests();
struct Register {
    Register(const char *name, const char *file, void (*run)());
};

#define TEST(name)                                                                                                     \
    static void name();                                                                                                \
    static const Register register_##name(#name, __FILE__, name);                                                      \
    static void name()

#define TEXT_(x) #x
#define AT_(line) __FILE__ ":" TEXT_(line) ": "
#define WHERE AT_(__LINE__)
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            throw Failure{WHERE #condition};                                                                           \
    } while (0)

// Ends a test, which counts as neither passed nor failed.
#define SKIP(reason)                                                                                                   \
    throw Skipped {                                                                                                    \
        reason                                                                                                         \
    }

// A call that must succeed; err is the kpx_error in scope.
#define REQUIRE_OK(call)                                                                                               \
    do {                                                                                                               \
        if ((call) != KPX_OK)                                                                                          \
            throw Failure{WHERE #call ": " + std::string(err.message)};                                                \
    } while (0)

// A call that must fail with that code and say something.
#define REQUIRE_CODE(code_, call)                                                                                      \
    do {                                                                                                               \
        err = kpx_error{};                                                                                             \
        const kpx_result got_ = (call);                                                                                \
        if (got_ != (code_) || err.code != (code_) || err.message[0] == 0)                                             \
            throw Failure{WHERE #call ": got " + std::to_string(got_) + " \"" + err.message + "\", not " #code_};      \
    } while (0)

template <typename T, void (*Free)(T *)> struct Freed {
    void operator()(T *handle) const { Free(handle); }
};
using Device = std::unique_ptr<kpx_device, Freed<kpx_device, kpx_device_close>>;
using Storage = std::unique_ptr<kpx_tensor, Freed<kpx_tensor, kpx_tensor_destroy>>;
using Stream = std::unique_ptr<kpx_stream, Freed<kpx_stream, kpx_stream_destroy>>;
using Region = std::unique_ptr<kpx_region, Freed<kpx_region, kpx_region_destroy>>;
using Read = std::unique_ptr<kpx_read, Freed<kpx_read, kpx_read_destroy>>;
using Algorithm = std::unique_ptr<kpx_algorithm, Freed<kpx_algorithm, kpx_algorithm_destroy>>;

Device open_device(uint64_t budget = 0);
Device open_device(const kpx_device_options &options);
// A device on which all fusion passes run, even those that do not pay on a CPU driver.
Device open_as_gpu();
Device open_without_passes(const char *passes);
// Whether Vulkan runs on the CPU.
bool is_cpu_driver();
// The cases to run: only the first on CPU drivers, where nearly all of the time goes into compiling the kernels of each
// case. KOMPUTE_GO_TEST_WHOLE=1 asks for all.
bool runs_every_case();
template <typename T> std::vector<T> some_of(const std::vector<T> &cases) {
    return runs_every_case() ? cases : std::vector<T>{cases.front()};
}
// A tensor's handle.
Storage new_storage(const Device &device, uint64_t bytes);
Stream new_stream(const Device &device, kpx_stream_kind kind = KPX_STREAM_COMPUTE);
Algorithm new_algorithm(const Device &device, const std::vector<uint32_t> &spirv, uint32_t bindings,
                        const std::vector<uint32_t> &spec, uint32_t push_bytes);

// A contiguous uint32 array of n elements at the start of a tensor.
kpx_array words_of(const Storage &buffer, int64_t n, kpx_access access);
// A contiguous array of that shape at the start of a tensor.
kpx_array array_of(const Storage &buffer, uint32_t dtype, const std::vector<int64_t> &shape,
                   kpx_access access = KPX_READ);
// The bytes [offset, offset + n).
kpx_array bytes_of(const Storage &buffer, uint64_t offset, uint64_t n);
// Writes bytes to the host's copy, or to whichever copy is up to date.
void write_bytes(const Stream &stream, const Storage &buffer, uint64_t offset, const void *data, uint64_t n);
// Writes the first words, and has them uploaded.
void upload(const Stream &stream, const Storage &buffer, const std::vector<uint32_t> &data);
std::vector<uint32_t> download(const Stream &stream, const Storage &buffer, size_t n);
// Checks that a device still works, by one of its streams.
void require_usable(const Device &device, const Stream &stream);
Read read(const Stream &stream, const Storage &buffer, uint64_t offset, uint64_t bytes,
          kpx_read_when when = KPX_READ_APPEND);
// Waits for a read of n words.
std::vector<uint32_t> take(const Read &read, size_t n);
uint64_t flush(const Stream &stream);

// Appends the op of that name; the last array is written, the others are read.
kpx_result append_op(const Stream &stream, const char *name, std::vector<kpx_array> arrays, const void *params,
                     uint32_t size, kpx_error *err);
// out = a + b over n uint32 elements.
void add_words(const Stream &stream, const Storage &a, const Storage &b, const Storage &out, int64_t n);
// x += 1 over n uint32 elements, by an algorithm of add_one.comp with factor 1.
void add_one(const Stream &stream, const Algorithm &algorithm, const Storage &x, uint32_t n);

void begin_capture(const Stream &stream);
Region end_capture(const Stream &stream);
uint64_t replay(const Stream &stream, const Region &region, uint32_t times = 1);
void wait(const Stream &stream, uint64_t value);
// Profiles a replay, waits for it, and takes its times.
kpx_result profile(kpx_stream *stream, kpx_region *region, kpx_span *spans, uint64_t n, kpx_span *whole,
                   kpx_error *err);
kpx_region_stats stats_of(const Region &region);
std::string describe(const Region &region);
kpx_stream_stats stats_of(const Stream &stream);
kpx_device_stats stats_of(const Device &device);
// The variants of a kernel.
std::vector<kpx_variant> variants_of(const Device &device, const char *kernel);

// Deterministic numbers.
struct Random {
    uint64_t state;
    uint32_t next();
    uint32_t below(uint32_t n) { return next() % n; }
};
