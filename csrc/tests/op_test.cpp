// The op table, and the errors of wrong calls.
#include <cstring>

#include "ops/gen_ops.hpp"
#include "test.hpp"

static const char *const kOps[] = {
#define KPX_NAME(name, Name) #name,
    KPX_OPS(KPX_NAME)
#undef KPX_NAME
};

TEST(every_op_is_found_by_name) {
    for (const char *name : kOps) {
        CHECK(kpx_op_find(name) >= 0);
    }
}

TEST(calls_without_the_ops_operands_and_parameters_are_invalid) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 1024);
    kpx_array array = words_of(buffer, 16, KPX_READ_WRITE);
    const uint8_t params[3] = {};
    for (const char *name : kOps) {
        const int32_t op = kpx_op_find(name);
        REQUIRE_CODE(KPX_INVALID, kpx_op(stream.get(), op, nullptr, 0, nullptr, 0, &err));
        REQUIRE_CODE(KPX_INVALID, kpx_op(stream.get(), op, &array, 1, params, sizeof params, &err));
    }
    CHECK(flush(stream) == 0);
    CHECK(stats_of(stream).ops == 0 && stats_of(stream).dispatches == 0);
}

TEST(ops_take_what_the_caller_checked) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage from = new_storage(device, 64), to = new_storage(device, 64);
    upload(stream, from, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
    kpx_array in = words_of(from, 4, KPX_READ), out = words_of(to, 4, KPX_WRITE);
    in.offset = 3;
    in.strides[0] = 3; // 4, 7, 10, 13
    kpx_array arrays[2] = {in, out};
    const uint32_t params = 0;
    REQUIRE_OK(kpx_op(stream.get(), kpx_op_find("copy"), arrays, 2, &params, 4, &err));
    CHECK((download(stream, to, 4) == std::vector<uint32_t>{4, 7, 10, 13}));
    kpx_array outside[2] = {in, words_of(to, 17, KPX_WRITE)};
    REQUIRE_CODE(KPX_INVALID, kpx_op(stream.get(), kpx_op_find("copy"), outside, 2, &params, 4, &err));
}

// Repeated and empty views whose elements, or their positions, no number counts: wrapped around, some would look empty.
TEST(views_that_cannot_be_counted_are_invalid) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage from = new_storage(device, 64), to = new_storage(device, 64);
    const int64_t half = int64_t(1) << 32;
    for (const std::vector<std::pair<int64_t, int64_t>> &axes : std::vector<std::vector<std::pair<int64_t, int64_t>>>{
             {{half, 0}, {half, 0}}, {{0, 1}, {half, 0}, {half, 0}}, {{0, 1}, {half, half}}}) {
        kpx_array in = words_of(from, 0, KPX_READ), out = words_of(to, 1, KPX_WRITE);
        for (const auto &[length, stride] : axes) {
            in.shape[in.rank - 1] = length;
            in.strides[in.rank++ - 1] = stride;
        }
        in.rank--;
        const uint32_t sum = REDUCE_SUM;
        REQUIRE_CODE(KPX_INVALID, append_op(stream, "reduce", {in, out}, &sum, 4, &err));
        REQUIRE_CODE(KPX_INVALID, append_op(stream, "copy", {in, in}, &sum, 4, &err));
        REQUIRE_CODE(KPX_INVALID, kpx_tensor_write(&in, stream.get(), nullptr, 0, &err));
    }
}

// Every op, with parameters of the right size, and operands that are all absent or one too many.
template <typename Call> static void check_operands_of(const Device &device, const char *name) {
    kpx_error err{};
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 1024);
    const int32_t op = kpx_op_find(name);
    CHECK(op == Call::kOp);
    const typename Call::Params params{};
    std::vector<kpx_array> arrays(std::size(Call::kOperands));
    REQUIRE_CODE(KPX_INVALID,
                 kpx_op(stream.get(), op, arrays.data(), uint32_t(arrays.size()), &params, sizeof params, &err));
    CHECK(strstr(err.message, Call::kOperands[0].name) != nullptr || Call::kOperands[0].optional);
    if (!Call::kVariadic) {
        arrays.assign(arrays.size() + 1, words_of(buffer, 16, KPX_READ_WRITE));
        REQUIRE_CODE(KPX_INVALID,
                     kpx_op(stream.get(), op, arrays.data(), uint32_t(arrays.size()), &params, sizeof params, &err));
    }
    CHECK(stats_of(stream).ops == 0);
}

TEST(absent_and_superfluous_operands_are_invalid) {
    Device device = open_device();
#define KPX_CHECK(name, Name) check_operands_of<kpx::Name##Call>(device, #name);
    KPX_OPS(KPX_CHECK)
#undef KPX_CHECK
}

// Shapes and dtypes that Go would have rejected are the caller's mistake, never an op that this device does not
// support.
TEST(shapes_and_dtypes_that_do_not_fit_are_invalid) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 1024), other = new_storage(device, 1024);
    kpx_array floats = words_of(buffer, 16, KPX_READ), out = words_of(other, 16, KPX_WRITE);
    kpx_array words = floats, shorter = words_of(other, 8, KPX_WRITE);
    floats.dtype = out.dtype = shorter.dtype = DT_FLOAT32;
    const uint32_t none = 0, far = 99;
    const float eps = 0;
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "softmax", {floats, shorter}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "softmax", {words, out}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "rms_norm", {floats, shorter, out}, &eps, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "layer_norm", {floats, {}, shorter, out}, &eps, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "unary", {floats, out}, &far, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "binary", {floats, words, out}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "reduce", {floats, shorter}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "copy", {floats, shorter}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "matmul", {floats, floats, out}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "gather", {floats, floats, out}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "concat", {floats, shorter, out}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "silu_mul", {floats, floats, shorter}, &none, 4, &err));
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "where", {floats, floats, floats, out}, &none, 4, &err));
    CHECK(flush(stream) == 0 && stats_of(stream).ops == 0);
}

// A row that is too long for a workgroup is valid in itself: the CPU can run it.
TEST(what_kernels_do_not_reach_is_unsupported) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 64), other = new_storage(device, 64);
    kpx_array q = words_of(buffer, 1, KPX_READ), out = words_of(other, 1, KPX_WRITE);
    q.dtype = out.dtype = DT_FLOAT32;
    q.rank = out.rank = 4;
    const int64_t head = 1 << 20; // of one element, repeated
    for (uint32_t i = 0; i < 4; i++) {
        q.shape[i] = out.shape[i] = 1;
        q.strides[i] = out.strides[i] = 0;
    }
    q.shape[3] = head;
    kpx_array v = q;
    v.shape[3] = 1;
    const kpx::SDPAOp op{1, 0};
    REQUIRE_CODE(KPX_UNSUPPORTED, append_op(stream, "sdpa", {q, q, v, {}, {}, out}, &op, sizeof op, &err));
    CHECK(strstr(err.message, "heads of 1048576") != nullptr);
    if (is_cpu_driver()) { // which ends kernels with more rounds of loops than a row of so many tokens may take
        kpx_array logits = v, params = words_of(buffer, SAMPLE_PARAMS_SIZE, KPX_READ),
                  token = words_of(other, 1, KPX_WRITE);
        logits.rank = 2;
        logits.shape[1] = 3000000; // one element, repeated
        params.dtype = token.dtype = DT_UINT32;
        const kpx::SampleOp draw{0};
        REQUIRE_CODE(KPX_UNSUPPORTED,
                     append_op(stream, "sample", {logits, params, {}, token}, &draw, sizeof draw, &err));
        CHECK(strstr(err.message, "3000000") != nullptr);
    }
    CHECK(flush(stream) == 0 && stats_of(stream).ops == 0);
}
