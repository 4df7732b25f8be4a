// The op table and the answers of ops that cannot run.
#include <cstring>

#include "test.hpp"

static const char *const kOps[] = {
#define KPX_OP(name) #name,
#include "ops/ops.def"
#undef KPX_OP
};

TEST(every_op_is_found_by_name) {
    for (const char *name : kOps) {
        CHECK(kpx_op_find(name) >= 0);
    }
}

TEST(unsupported_ops_say_why_and_leave_nothing) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Buffer buffer = new_buffer(device, 1024);
    const kpx_array array = words_of(buffer, 16, KPX_READ_WRITE);
    const uint8_t params[3] = {};
    for (const char *name : kOps) {
        const int32_t op = kpx_op_find(name);
        REQUIRE_CODE(KPX_UNSUPPORTED, kpx_op(stream.get(), op, nullptr, 0, nullptr, 0, &err));
        REQUIRE_CODE(KPX_UNSUPPORTED, kpx_op(stream.get(), op, &array, 1, params, sizeof params, &err));
    }
    CHECK(flush(stream) == 0);
    CHECK(stats_of(stream).ops == 0 && stats_of(stream).dispatches == 0);
}

TEST(ops_take_what_the_caller_checked) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Buffer from = new_buffer(device, 64), to = new_buffer(device, 64);
    upload(stream, from, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    kpx_array in = words_of(from, 4, KPX_READ), out = words_of(to, 4, KPX_WRITE);
    in.offset = 3;
    in.strides[0] = 3; // 4, 7, 10, 13
    const kpx_array arrays[2] = {in, out};
    const uint32_t params = 0;
    REQUIRE_OK(kpx_op(stream.get(), kpx_op_find("copy"), arrays, 2, &params, 4, &err));
    CHECK((download(stream, to, 4) == std::vector<uint32_t>{4, 7, 10, 13}));
    const kpx_array outside[2] = {in, words_of(to, 17, KPX_WRITE)};
    REQUIRE_CODE(KPX_INVALID, kpx_op(stream.get(), kpx_op_find("copy"), outside, 2, &params, 4, &err));
}
