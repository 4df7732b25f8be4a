// Several rows in the op "projection": each gets the bits that it gets alone, whichever kernel computes it.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "layer.hpp"
#include "ops/gen_ops.hpp"

using Call = kpx::ProjectionCall;

// Rows of x give the same bits together as each of them alone, in every form of the kernel, or results within a bound
// where a device was opened for that; some of float32 have infinities.
struct Rows {
    int64_t rows, cols, out;
    uint32_t group, norm;
    uint32_t bits = 4;
    uint32_t mode = 0; // QUANTIZATION_*; of mxfp4, cols are a multiple of 128, and of nvfp4 of 64
    uint32_t dtype = DT_FLOAT32;
    float bound = 0;   // of the differences, as a part of the largest result
    uint32_t gain = 0; // bits of an element of the gain, if not 0
};
constexpr uint32_t kNan = 0x7fc00000u, kInfinity = 0x7f800000u;

static bool same_results(const std::vector<float> &a, const std::vector<float> &b, float bound) {
    float most = 0;
    for (float v : a) {
        most = std::isfinite(v) ? std::max(most, std::abs(v)) : most;
    }
    const auto same = [&](float x, float y) {
        return memcmp(&x, &y, sizeof x) == 0 || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= bound * most;
    };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

// The operands of a case.
class RowsOfX {
  public:
    RowsOfX(const Device &device, const Rows &given)
        : c(given), l(device, nullptr), x(l.random(c.dtype, {c.rows, c.cols}, 1)),
          residual(l.random(c.dtype, {c.rows, c.out}, 1)), gain(l.random(c.dtype, {c.cols}, 1)), m(matrix()),
          up(matrix()) {
        if (c.norm == 0) { // the norm of a row with infinities is NaN
            write_bits(x, 3, kInfinity);
            write_bits(x, c.rows * c.cols - 1, kInfinity | 1u << 31);
        }
        if (c.gain != 0) {
            write_bits(gain, 5, c.gain);
        }
    }

    // Throws if the rows differ with an epilogue.
    void check(uint32_t epilogue) {
        const Tensor together = results(), alone = results(), together2 = results(), alone2 = results();
        run(epilogue, x.array, residual.array, together.array, together2.array);
        for (int64_t row = 0; row < c.rows; row++) {
            run(epilogue, row_of(x, row), row_of(residual, row), row_of(alone, row), row_of(alone2, row));
        }
        const bool same = same_results(l.read(together), l.read(alone), c.bound) &&
                          (epilogue != 0 || same_results(l.read(together2), l.read(alone2), c.bound));
        if (!same) {
            throw Failure{std::to_string(c.rows) + " rows of " + std::to_string(c.cols) + " times " +
                          std::to_string(c.out) + (c.mode != 0 ? ", mode " + std::to_string(c.mode) : "") + ", " +
                          std::to_string(c.bits) + " bits, groups of " + std::to_string(c.group) + ", dtype " +
                          std::to_string(c.dtype) + ", epilogue " + std::to_string(epilogue)};
        }
    }

  private:
    Matrix matrix() {
        return c.mode == QUANTIZATION_MXFP4   ? l.mxfp4(c.out, c.cols)
               : c.mode == QUANTIZATION_NVFP4 ? l.nvfp4(c.out, c.cols)
                                              : l.matrix(c.out, c.cols, c.group, c.bits);
    }

    Tensor results() const { return l.empty(c.dtype, {c.rows, c.out}); }

    // bits: of a float32.
    void write_bits(const Tensor &t, int64_t at, uint32_t bits) {
        const size_t size = c.dtype == DT_FLOAT32 ? 4 : 2;
        const uint32_t own = c.dtype == DT_FLOAT32 ? bits : c.dtype == DT_BFLOAT16 ? bits >> 16 : bits >> 16 & 0xfc00u;
        write_bytes(l.stream, t.buffer, at * size, &own, size);
    }

    static kpx_array row_of(const Tensor &t, int64_t row) {
        kpx_array a = t.array;
        a.offset = row * a.shape[1];
        a.shape[0] = 1;
        return a;
    }

    void run(uint32_t epilogue, kpx_array input, kpx_array added, kpx_array result, kpx_array second) {
        const struct {
            uint32_t group_size, bits, norm, epilogue;
            float eps;
            uint32_t dtype;
        } params{c.group, c.bits, c.norm, epilogue, 1e-5f, 0};
        std::vector<kpx_array> arrays(std::size(Call::kOperands));
        arrays[Call::kX] = input;
        arrays[Call::kGain] = c.norm != 0 ? gain.array : kpx_array{};
        arrays[Call::kResidual] = epilogue == 1 ? added : kpx_array{};
        const Matrix *matrices[] = {&m, &up};
        for (uint32_t i = 0; i < (epilogue == 1 ? 1 : 2); i++) {
            arrays[Call::kW + Call::kGroupSize * i] = matrices[i]->w.array;
            arrays[Call::kScales + Call::kGroupSize * i] = matrices[i]->scales.array;
            arrays[Call::kBiases + Call::kGroupSize * i] = c.mode != 0 ? kpx_array{} : matrices[i]->biases.array;
        }
        arrays[Call::kOut] = result;
        arrays[Call::kOut].access = KPX_WRITE;
        if (epilogue == 0) {
            arrays[Call::kOut + Call::kGroupSize] = second;
            arrays[Call::kOut + Call::kGroupSize].access = KPX_WRITE;
        }
        kpx_error err{};
        REQUIRE_OK(kpx_op(l.stream.get(), kpx_op_find("projection"), arrays.data(), uint32_t(arrays.size()), &params,
                          sizeof params, &err));
    }

    const Rows c;
    Layer l;
    const Tensor x, residual, gain;
    const Matrix m, up;
};

constexpr uint32_t kEpilogues = 3;

static void check_rows(const Device &device, const Rows &c) {
    RowsOfX rows(device, c);
    for (uint32_t epilogue = 0; epilogue < kEpilogues; epilogue++) {
        rows.check(epilogue);
    }
}

// On CPU drivers the first case with each epilogue, whose kernels take long to compile, and each other one with one of
// them in turn.
static void check_some_epilogues(const Device &device, const std::vector<Rows> &cases) {
    for (size_t i = 0; i < cases.size(); i++) {
        if (i == 0 || runs_every_case()) {
            check_rows(device, cases[i]);
        } else {
            RowsOfX(device, cases[i]).check(uint32_t(i % kEpilogues));
        }
    }
}

static const std::string kFragments = "projection_fragments.narrow_subgroup_khr,",
                         kHeld = "projection_held.narrow_subgroup_khr8,projection_held.narrow_subgroup_dot8",
                         kParts = "projection_parts.narrow_subgroup_khr8,projection_parts.narrow_subgroup_dot8";

// Runs the cases without the disabled kernels, and more of them where the driver runs all.
static void takes_several_rows(const std::string &disabled, std::vector<Rows> cases) {
    setenv("KOMPUTE_GO_FUSION_ON_CPU", "1", 1);
    const std::string all = kFragments + disabled;
    kpx_device_options options{};
    options.disabled = all.c_str();
    Device device = open_device(options);
    if (runs_every_case()) {
        cases.insert(cases.end(), {{16, 1024, 17, 128, 0},
                                   {37, 352, 40, 32, 1},
                                   {40, 2560, 40, 128, 0},
                                   {7, 9728, 40, 64, 1},
                                   {5, 384, 24, 128, 1, 2},
                                   {37, 352, 40, 32, 1, 8},
                                   {5, 384, 24, 32, 1, 6},
                                   {20, 352, 24, 32, 0, 5},
                                   {5, 352, 24, 32, 0, 3},
                                   {3, 352, 24, 32, 1, 2},
                                   {20, 384, 40, 32, 0, 4, QUANTIZATION_MXFP4},
                                   {16, 384, 40, 16, 1, 4, QUANTIZATION_NVFP4},
                                   {7, 2560, 2720, 16, 0, 4, QUANTIZATION_NVFP4},
                                   {3, 256, 40, 16, 0, 4, QUANTIZATION_NVFP4}});
    }
    check_some_epilogues(device, cases);
}

TEST(a_projection_takes_several_rows_in_registers) {
    takes_several_rows("", {{5, 352, 40, 32, 1},
                            // Integers span as many columns as the driver's subgroups allow.
                            {5, 640, 40, 128, 1, 4, 0, DT_FLOAT32, 0.0f, kInfinity},
                            {2, 448, 24, 64, 0}, // two rows in a workgroup, and a last chunk with half of its units
                            {3, 384, 24, 32, 1, 4, QUANTIZATION_MXFP4},
                            {5, 448, 24, 16, 0, 4, QUANTIZATION_NVFP4},
                            {5, 352, 24, 32, 1, 4, 0, DT_BFLOAT16}});
}

// Slices of one part and of two.
TEST(a_projection_divides_columns_of_several_rows_among_workgroups) {
    takes_several_rows(kHeld, {{16, 352, 40, 32, 1},
                               {16, 384, 40, 64, 0, 8},
                               {3, 1024, 17, 128, 0},
                               {5, 448, 24, 64, 0},
                               {3, 352, 24, 32, 1, 4, 0, DT_FLOAT16}});
}

// On CPU drivers, two blocks of rows in a workgroup.
TEST(a_projection_makes_several_rows_in_a_dispatch_of_their_own) {
    takes_several_rows(kHeld + "," + kParts,
                       {{16, 352, 40, 32, 0}, {16, 384, 40, 64, 0, 8}, {16, 640, 40, 128, 1}, {5, 384, 24, 64, 0, 3}});
}

// With matrices made in registers, where the device passes their check, but not by projection_held.
static Device with_fragments(bool variant) {
    kpx_device_options options{};
    options.batch_variant = variant;
    options.disabled = kHeld.c_str();
    return open_device(options);
}

// Whether it passes, as NVIDIA's do, whose drivers have them in that form.
static bool makes_fragments() {
    const Device device = with_fragments(true);
    const bool passes = stats_of(device).batch_variant != 0;
    const bool has_matrices = variants_of(device, "fragment_check").front().state == KPX_VARIANT_USABLE;
    kpx_device_info info{};
    kpx_error err{};
    REQUIRE_OK(kpx_device_describe(0, &info, &err));
    CHECK(passes || !has_matrices || strstr(info.name, "NVIDIA") == nullptr);
    return passes;
}

// One to four blocks of rows, of which fewer than three need large products, several turns, one and two matrices, parts
// that are not whole, slices of one part and of two, and a last pair of tiles that begins among other rows.
TEST(a_row_has_the_same_bits_by_matrices_made_in_registers) {
    if (!makes_fragments()) {
        SKIP("the driver has no such matrices in registers");
    }
    const Device device = with_fragments(false);
    const std::vector<Rows> cases{{9, 512, 40000, 128, 0},
                                  {17, 512, 40000, 128, 1},
                                  {33, 512, 400, 128, 0}, // from here on however little there is to do
                                  {40, 2560, 36, 128, 0},
                                  {33, 4096, 400, 128, 0},
                                  {64, 9728, 1000, 128, 1},
                                  {33, 512, 400, 128, 1, 4, 0, DT_FLOAT32, 0.0f, kNan},
                                  {33, 512, 400, 128, 1, 4, 0, DT_FLOAT32, 0.0f, kInfinity},
                                  {49, 2560, 400, 128, 0, 4, 0, DT_BFLOAT16},
                                  {37, 640, 384, 128, 1, 4, 0, DT_FLOAT16},
                                  {3, 2560, 12000, 128, 0}, // a block of eight rows, if there are many columns
                                  {8, 4096, 8000, 128, 1},
                                  {5, 9728, 4000, 128, 0, 4, 0, DT_BFLOAT16},
                                  {7, 2048, 12000, 128, 1, 4, 0, DT_FLOAT32, 0.0f, kNan}};
    for (const Rows &c : cases) {
        check_rows(device, c);
    }
    CHECK(variants_of(device, "projection_fragments").front().calls == 3 * cases.size()); // each epilogue
}

// Smaller groups, and one digit of x of 16 bits.
TEST(a_projection_rounds_rows_otherwise_if_asked_to) {
    CHECK(stats_of(with_fragments(false)).batch_variant == 0);
    if (!makes_fragments()) {
        SKIP("the driver has no such matrices in registers");
    }
    const Device device = with_fragments(true);
    constexpr float kBound = 1e-6f, kFloat16 = 1.0f / 1024, kBfloat16 = 1.0f / 256;
    const std::vector<Rows> cases{{17, 512, 40000, 64, 1, 4, 0, DT_FLOAT32, kBound},
                                  {35, 352, 400, 32, 0, 4, 0, DT_FLOAT32, kBound},
                                  {37, 384, 1000, 64, 1, 4, 0, DT_FLOAT32, kBound},
                                  {49, 2560, 400, 128, 0, 4, 0, DT_BFLOAT16, kBfloat16},
                                  {35, 352, 400, 32, 1, 4, 0, DT_BFLOAT16, kBfloat16},
                                  {37, 960, 384, 64, 1, 4, 0, DT_FLOAT16, kFloat16},
                                  {33, 512, 400, 128, 1, 4, 0, DT_BFLOAT16, kBfloat16, kNan}};
    for (const Rows &c : cases) {
        check_rows(device, c);
    }
    CHECK(variants_of(device, "projection_fragments").front().calls == 3 * cases.size()); // each epilogue
}
