// Which kernels multiply dense matrices on devices with matrix units.
#include <array>

#include "ops/gen_ops.hpp"
#include "recorded_lowering.hpp"
#include "test.hpp"

using kpx::Array;

namespace {

// a broadcast over batches: a view of its one matrix.
Array repeated(Array a, int64_t batches) {
    a.shape[0] = batches;
    a.strides[0] = 0;
    return a;
}

// The first kernel of the product a * b.
std::string first_kernel(RecordedLowering &lowering, const Array &a, const Array &b) {
    const Array arrays[] = {a, b, RecordedLowering::array(a.dtype, {a.dim(0), a.dim(1), b.dim(2)})};
    const kpx::MatMulOp op{};
    kpx::lower_matmul(lowering, kpx::MatMulCall(arrays, 3, op));
    return lowering.dispatches.front().kernel;
}

// A product of so many rows of length k with the rows of a matrix, of which each is contiguous.
std::string product_of_rows(RecordedLowering &lowering, int64_t rows, int64_t k, int64_t n) {
    Array b = RecordedLowering::array(DT_FLOAT32, {1, k, n});
    b.strides[1] = 1;
    b.strides[2] = k;
    return first_kernel(lowering, RecordedLowering::array(DT_FLOAT32, {1, rows, k}), b);
}

} // namespace

TEST(a_matrix_that_batches_share_is_split_once) {
    RecordedLowering lowering;
    const Array a = repeated(RecordedLowering::array(DT_FLOAT32, {1, 1024, 1024}), 1500);
    const Array b = RecordedLowering::array(DT_FLOAT32, {1500, 1024, 32});
    CHECK(first_kernel(lowering, a, b) == "matmul_split");
    CHECK(lowering.dispatches.size() == 3 && lowering.dispatches[0].grid.z == 1);
    CHECK(lowering.dispatches[1].grid.z == 1500 && lowering.dispatches[2].grid.z == 1500);
    const uint64_t elements = 1024 * 1024 + 1500 * 1024 * 32;
    CHECK(lowering.scratch_bytes >= 4 * elements && lowering.scratch_bytes < 5 * elements);
}

TEST(parts_beyond_a_tensor_or_of_a_stretched_row_are_not_made) {
    RecordedLowering lowering;
    const Array a = RecordedLowering::array(DT_FLOAT32, {1, 1024, 1024});
    const Array b = RecordedLowering::array(DT_FLOAT32, {1, 1024, 1024});
    lowering.traits.max_tensor_bytes = 4 << 20;
    CHECK(first_kernel(lowering, a, b) == "matmul_split");
    lowering = RecordedLowering();
    lowering.traits.max_tensor_bytes = (4 << 20) - 4;
    CHECK(first_kernel(lowering, a, b) == "matmul_tiled" && lowering.scratch_bytes == 0);
    lowering = RecordedLowering();
    Array row = a;
    row.strides[1] = 0;
    CHECK(first_kernel(lowering, row, b) == "matmul_tiled");
}

// Rows of float16 are not searched for infinities.
TEST(float16_is_not_multiplied_with_parts_of_other_dtypes) {
    RecordedLowering lowering;
    const Array half = RecordedLowering::array(DT_FLOAT16, {1, 64, 64});
    CHECK(first_kernel(lowering, half, half) == "matmul_split");
    for (uint32_t dtype : {DT_FLOAT32, DT_BFLOAT16}) {
        const Array other = RecordedLowering::array(dtype, {1, 64, 64});
        lowering = RecordedLowering();
        CHECK(first_kernel(lowering, half, other) == "matmul_tiled");
        lowering = RecordedLowering();
        CHECK(first_kernel(lowering, other, half) == "matmul_tiled");
        lowering = RecordedLowering();
        CHECK(first_kernel(lowering, other, other) == "matmul_split");
    }
}

// A workgroup of matmul_vec takes all rows of a: unlike quantized_matmul_vec it has no blocks of them.
TEST(a_workgroup_multiplies_all_rows_also_for_compilers_that_are_slow) {
    RecordedLowering lowering;
    lowering.traits.subgroup_size = 4;
    lowering.traits.is_cpu = lowering.traits.small_code = true;
    for (const int64_t rows : {1, 2, 3, 5, 8}) {
        lowering.dispatches.clear();
        CHECK(product_of_rows(lowering, rows, 128, 64) == "matmul_vec");
        CHECK(lowering.dispatches.size() == 1 && lowering.dispatches[0].spec[4] >= rows);
    }
}

// On a CPU driver, a workgroup takes fewer rows of the matrix than elsewhere if its loops would have too many rounds.
TEST(workgroups_of_long_rows_take_fewer_of_them_on_cpu_drivers) {
    for (const auto &[k, n, groups] : {std::array<int64_t, 3>{4096, 40960, 512}, {16384, 102400, 753}}) {
        RecordedLowering lowering;
        lowering.traits.subgroup_size = 8;
        lowering.traits.max_shared_bytes = 32768;
        CHECK(product_of_rows(lowering, 8, k, n) == "matmul_vec" && lowering.dispatches[0].grid.x <= 512);
        lowering.dispatches.clear();
        lowering.traits.is_cpu = true;
        CHECK(product_of_rows(lowering, 8, k, n) == "matmul_vec" && lowering.dispatches[0].grid.x == groups);
    }
}

// And where no launch has few enough, the op runs on the CPU instead.
TEST(products_of_too_many_rounds_are_refused_on_cpu_drivers) {
    RecordedLowering lowering;
    lowering.traits.subgroup_size = 8;
    lowering.traits.is_cpu = true;
    for (const auto &[k, fits] : {std::pair<int64_t, bool>{300000, true}, {400000, false}}) {
        bool refused = false;
        try {
            product_of_rows(lowering, 8, k, 16);
        } catch (const kpx::Error &e) {
            refused = e.code == KPX_UNSUPPORTED;
        }
        CHECK(refused != fits);
    }
}
