// Operands that are empty, very large, or do not fit each other.
#include "ops/gen_ops.hpp"
#include "recorded_lowering.hpp"
#include "test.hpp"

// Marks of the places of a scatter take more memory than the places themselves.
TEST(scratch_memory_beyond_every_tensor_is_unsupported) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    const int64_t n = int64_t(stats_of(device).max_tensor_bytes / 8) + 1;
    Storage x = new_storage(device, uint64_t(n)), index = new_storage(device, 4),
            out = new_storage(device, uint64_t(n));
    const kpx::ScatterOp op{0, SCATTER_SET, 1};
    REQUIRE_CODE(KPX_UNSUPPORTED,
                 append_op(stream, "scatter",
                           {array_of(x, DT_UINT8, {n}, KPX_READ), array_of(index, DT_UINT32, {1}, KPX_READ),
                            array_of(index, DT_UINT8, {1}, KPX_READ), array_of(out, DT_UINT8, {n}, KPX_WRITE)},
                           &op, sizeof op, &err));
}

// Empty views at the very end.
TEST(empty_operands_may_start_at_the_end_of_their_memory) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage a = new_storage(device, 256), b = new_storage(device, 256), out = new_storage(device, 64);
    kpx_array x = array_of(a, DT_FLOAT32, {4, 0}, KPX_READ), w = array_of(b, DT_FLOAT32, {0, 4}, KPX_READ);
    x.offset = w.offset = 64;
    const uint32_t none = 0;
    REQUIRE_OK(append_op(stream, "matmul", {x, w, array_of(out, DT_FLOAT32, {4, 4}, KPX_WRITE)}, &none, 4, &err));
    CHECK((download(stream, out, 16) == std::vector<uint32_t>(16)));
    kpx_array q = array_of(a, DT_FLOAT32, {1, 1, 2, 4}, KPX_READ), k = array_of(b, DT_FLOAT32, {1, 1, 0, 4}, KPX_READ);
    k.offset = 64;
    const kpx::SDPAOp op{1, 0};
    REQUIRE_OK(append_op(stream, "sdpa", {q, k, k, {}, {}, array_of(out, DT_FLOAT32, {1, 1, 2, 4}, KPX_WRITE)}, &op,
                         sizeof op, &err));
    CHECK((download(stream, out, 8) == std::vector<uint32_t>(8)));
}

// Kernels find a row's codes by bits, which they count by 32.
TEST(rows_of_codes_that_kernels_cannot_count_are_unsupported) {
    const kpx::DequantizeOp op{64, 8, QUANTIZATION_AFFINE};
    for (const int64_t cols : {int64_t(1) << 28, int64_t(1) << 29}) {
        RecordedLowering lowering;
        lowering.traits.max_tensor_bytes = UINT32_MAX;
        const kpx::Array scales = RecordedLowering::array(DT_FLOAT32, {1, cols / 64}),
                         arrays[] = {RecordedLowering::array(DT_UINT32, {1, cols / 4}), scales, scales,
                                     RecordedLowering::array(DT_FLOAT16, {1, cols})};
        kpx_result result = KPX_OK;
        try {
            kpx::lower_dequantize(lowering, kpx::DequantizeCall(arrays, 4, op));
        } catch (const kpx::Error &e) {
            result = e.code;
        }
        CHECK(result == (cols == 1 << 28 ? KPX_OK : KPX_UNSUPPORTED));
    }
}

// Each launch has four of its axes.
TEST(parts_of_many_axes_take_few_launches) {
    RecordedLowering lowering;
    const kpx::Array arrays[] = {RecordedLowering::array(DT_UINT8, {32, 32, 32, 16, 3, 3, 3, 3}),
                                 RecordedLowering::array(DT_INT32, {8}),
                                 RecordedLowering::array(DT_UINT8, {31, 31, 31, 15, 2, 2, 2, 2})};
    kpx::lower_slice(lowering, kpx::SliceCall(arrays, 3, kpx::SliceOp{}));
    CHECK(lowering.dispatches.size() <= 2 * 2 * 2 * 15);
}

// The kernels would read past the operands, or copy elements as if they had the other's type.
TEST(results_that_do_not_fit_the_operands_are_invalid) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 4096), to = new_storage(device, 4096);
    const kpx::RoPEOp rope{2, 0, 10000, 1, 0};
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "rope",
                                        {array_of(buffer, DT_BFLOAT16, {1, 1, 1, 4}, KPX_READ),
                                         {},
                                         {},
                                         array_of(to, DT_FLOAT32, {1, 1, 1, 4}, KPX_WRITE)},
                                        &rope, sizeof rope, &err));
    const kpx_array w = array_of(buffer, DT_UINT32, {2, 4}, KPX_READ),
                    scales = array_of(buffer, DT_FLOAT32, {2, 1}, KPX_READ),
                    out = array_of(to, DT_FLOAT32, {3, 32}, KPX_WRITE);
    const kpx::DequantizeOp dequantize{32, 4, QUANTIZATION_AFFINE};
    REQUIRE_CODE(KPX_INVALID,
                 append_op(stream, "dequantize", {w, scales, scales, out}, &dequantize, sizeof dequantize, &err));
    const kpx::QuantizedGatherOp gather{32, 4, QUANTIZATION_AFFINE};
    REQUIRE_CODE(KPX_INVALID, append_op(stream, "quantized_gather",
                                        {w, scales, scales, array_of(buffer, DT_UINT32, {2}, KPX_READ), out}, &gather,
                                        sizeof gather, &err));
    CHECK(stats_of(stream).ops == 0);
}
