// The op "projection", for all quantizations, dtypes and sizes that it supports.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "layer.hpp"
#include "ops/gen_ops.hpp"

using Call = kpx::ProjectionCall;

// A norm and three products of its result, which become one op, and then a gated MLP, which becomes two.
static std::vector<Tensor> layer_of(Layer &l, int64_t k, int64_t n, uint32_t group, uint32_t bits) {
    Tensor x = l.random_row(k), h = l.row(k), gain = l.random(l.dtypes.activations, {k}, 1);
    std::vector<Tensor> results;
    l.norm(x, &gain, h);
    for (int64_t rows : {n, n / 2 + 3, int64_t(1)}) {
        const Matrix m = l.matrix(rows, k, group, bits);
        results.push_back(l.row(rows));
        l.product(h, m, results.back());
    }
    Tensor gate = l.row(n), up = l.row(n), y = l.row(k), mlp = l.row(n);
    const Matrix g = l.matrix(n, k, group, bits), u = l.matrix(n, k, group, bits);
    l.product(x, g, gate);
    l.product(x, u, up);
    l.silu_mul(gate, up, mlp);
    if (n % group == 0) {
        const Matrix down = l.matrix(k, n, group, bits);
        results.push_back(l.row(k));
        l.product(mlp, down, y);
        l.add(x, y, results.back());
    } else {
        results.push_back(std::move(mlp));
    }
    return results;
}

static void check_layer(const Device &device, int64_t k, int64_t n, uint32_t group, uint32_t bits, Dtypes dtypes = {}) {
    try {
        Expected expected{uint64_t(n % group == 0 ? 3 : 2), nullptr, dtypes};
        check_fused(
            device, [&](Layer &l) { return layer_of(l, k, n, group, bits); }, expected);
    } catch (const Failure &failure) {
        throw Failure{"rows of " + std::to_string(k) + ", " + std::to_string(bits) + " bits, groups of " +
                      std::to_string(group) + ", dtypes " + std::to_string(dtypes.activations) + ", " +
                      std::to_string(dtypes.scales) + ": " + failure.text};
    }
}

// With the kernels of GPUs, and if every case is asked for on a CPU driver, with its kernels, which all models' tests
// use.
static void in_both_forms(void (*test)(const Device &)) {
    if (is_cpu_driver() && runs_every_case()) {
        test(open_device());
    }
    test(open_as_gpu());
}

static void any_quantization(const Device &device) {
    struct Case {
        int64_t n;
        uint32_t group, bits;
    };
    const std::vector<Case> cases{{128, 64, 5}, {128, 64, 2},  {128, 64, 3}, {128, 64, 8},
                                  {128, 64, 6}, {128, 128, 4}, {128, 32, 4}};
    for (const Case &c : some_of(cases)) {
        check_layer(device, 256, c.n, c.group, c.bits);
    }
    check_layer(device, 256, 1024, 128, 3); // a lane with several rows
}
TEST(projections_of_any_quantization) {
    in_both_forms(any_quantization);
}

TEST(projections_of_any_dtype) {
    const Device device = open_as_gpu();
    for (const Dtypes &dtypes : some_of<Dtypes>({{DT_BFLOAT16, DT_BFLOAT16},
                                                 {DT_FLOAT16, DT_FLOAT32},
                                                 {DT_FLOAT16, DT_FLOAT16},
                                                 {DT_FLOAT32, DT_FLOAT32},
                                                 {DT_BFLOAT16, DT_FLOAT32}})) {
        check_layer(device, 128, 384, 64, 4, dtypes);
    }
}
TEST(projections_of_any_size) {
    const Device device = open_as_gpu();
    struct Case {
        int64_t k, n;
    };
    const std::vector<Case> cases{{352, 257}, {352, 64}, {352, 1},   {1024, 1}, {1024, 64}, {2560, 1},
                                  {96, 257},  {32, 64},  {2560, 64}, {32, 1},   {64, 2051}};
    for (const Case &c : some_of(cases)) {
        check_layer(device, c.k, c.n, 32, 4);
    }
}

// Rows that do not fit into shared memory are processed in pieces.
static void wide_rows(const Device &device) {
    for (int64_t k : some_of<int64_t>({12288, 6144, 32768})) {
        check_fused(device,
                    [&](Layer &l) {
                        Tensor x = l.random_row(k), h = l.row(k), gain = l.random(DT_FLOAT32, {k}, 1);
                        std::vector<Tensor> results;
                        l.norm(x, &gain, h);
                        for (uint32_t bits : {4u, 8u}) {
                            const Matrix m = l.matrix(72, k, 128, bits);
                            results.push_back(l.row(72));
                            l.product(h, m, results.back());
                        }
                        return results;
                    },
                    {3, nullptr, {}});
    }
}
TEST(projections_of_wide_rows) {
    in_both_forms(wide_rows);
}

// All of x is the number of the largest magnitude of its exponent and all codes are equal: minus the middle of the
// codes, the sums of their products are about what 32 bits just hold. The weights are the codes plus 1.
static void largest_sums(const Device &device, int64_t x_rows, uint32_t group, float of_x, uint32_t code) {
    constexpr int64_t kCols = 256, kRows = 40;
    Layer l(device, nullptr);
    const Tensor x = l.row(kCols, x_rows), y = l.row(kRows, x_rows);
    Matrix m{l.empty(DT_UINT32, {kRows, kCols / 8}), l.empty(DT_BFLOAT16, {kRows, kCols / group}),
             l.empty(DT_BFLOAT16, {kRows, kCols / group}), group, 4};
    const std::vector<float> row(size_t(x.size()), of_x);
    const std::vector<uint32_t> codes(size_t(m.w.size()), code * 0x11111111u);
    const std::vector<uint16_t> ones(size_t(m.scales.size()), 0x3f80);
    write_bytes(l.stream, x.buffer, 0, row.data(), row.size() * sizeof(float));
    write_bytes(l.stream, m.w.buffer, 0, codes.data(), codes.size() * sizeof(uint32_t));
    for (const Tensor *t : {&m.scales, &m.biases}) {
        write_bytes(l.stream, t->buffer, 0, ones.data(), ones.size() * sizeof(uint16_t));
    }
    l.product(x, m, y);
    const float want = kCols * of_x * float(code + 1);
    for (float v : l.read(y)) {
        CHECK(std::abs(v - want) < 1e-5f * std::abs(want));
    }
}

static void all_largest_sums(const Device &device) {
    for (int64_t x_rows : {1, 5, 40}) {
        for (uint32_t group : some_of<uint32_t>({128, 64})) {
            for (float x : {-0x1.fffffep0f, 0x1.fffffep0f}) {
                for (uint32_t code : {0u, 15u}) {
                    largest_sums(device, x_rows, group, x, code);
                }
            }
        }
    }
}
TEST(sums_of_extreme_codes_and_the_largest_integers_fit) {
    in_both_forms(all_largest_sums);
}

static void many_rows(const Device &device) {
    check_fused(device,
                [](Layer &l) {
                    Tensor x = l.random_row(64), h = l.row(64), gain = l.random(DT_FLOAT32, {64}, 1);
                    const Matrix m = l.matrix(40003, 64, 64);
                    std::vector<Tensor> results;
                    results.push_back(l.row(40003));
                    l.norm(x, &gain, h);
                    l.product(h, m, results[0]);
                    return results;
                },
                {1, nullptr, {}});
}
TEST(a_projection_of_many_rows_takes_turns) {
    in_both_forms(many_rows);
}

TEST(a_projection_refuses_what_it_cannot_do) {
    Device device = open_device();
    Layer l(device, nullptr);
    const Tensor x = l.random_row(256), two_rows = l.random(DT_FLOAT32, {2, 256}, 1), y = l.row(16), z = l.row(15);
    const Matrix m = l.matrix(16, 256);
    struct {
        uint32_t group_size, bits, norm, epilogue;
        float eps;
        uint32_t dtype;
    } params{128, 4, 0, 0, 0, 0};
    kpx_error err{};
    const auto run = [&](const Tensor &input, const kpx_array &residual, const Tensor &out, const kpx_array &up = {}) {
        std::vector<kpx_array> arrays(std::size(Call::kOperands));
        arrays[Call::kX] = input.array;
        arrays[Call::kUp] = up;
        arrays[Call::kResidual] = residual;
        arrays[Call::kW] = m.w.array;
        arrays[Call::kScales] = m.scales.array;
        arrays[Call::kBiases] = m.biases.array;
        arrays[Call::kOut] = out.array;
        arrays[Call::kOut].access = KPX_WRITE;
        return kpx_op(l.stream.get(), kpx_op_find("projection"), arrays.data(), uint32_t(arrays.size()), &params,
                      sizeof params, &err);
    };
    REQUIRE_OK(run(x, {}, y));
    REQUIRE_CODE(KPX_INVALID, run(two_rows, {}, y));
    REQUIRE_CODE(KPX_INVALID, run(x, {}, z));
    params.epilogue = 1;
    REQUIRE_OK(run(x, y.array, y));
    REQUIRE_CODE(KPX_INVALID, run(x, {}, y));
    REQUIRE_CODE(KPX_INVALID, run(x, z.array, y));
    params.epilogue = 2;
    REQUIRE_CODE(KPX_INVALID, run(x, {}, y));
    params.epilogue = 3; // the result is not an index, and then the products have no dtype
    REQUIRE_CODE(KPX_INVALID, run(x, {}, y));
    REQUIRE_CODE(KPX_INVALID, run(x, {}, l.empty(DT_UINT32, {1})));
    params.epilogue = 4;
    REQUIRE_CODE(KPX_INVALID, run(x, {}, y));
    params.epilogue = 0;
    params.bits = 7;
    REQUIRE_CODE(KPX_INVALID, run(x, {}, y));
    params.bits = 4;
    Tensor odd = l.random_row(260); // valid in itself, but the kernel reads four at a time
    odd.array.offset = 1;
    odd.array.shape[2] = 256;
    REQUIRE_CODE(KPX_UNSUPPORTED, run(odd, {}, y));
    REQUIRE_CODE(KPX_UNSUPPORTED, run(x, {}, y, x.array));
    REQUIRE_CODE(KPX_INVALID, run(x, {}, y, two_rows.array));
    params.norm = 1;
    REQUIRE_CODE(KPX_INVALID, run(x, {}, y, x.array)); // either a norm or SiLU
}

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

static void check_rows(const Device &device, const Rows &c) {
    const auto [rows, cols, out, group, norm, bits, mode, dtype, bound, special_gain] = c;
    Layer l(device, nullptr);
    const Tensor x = l.random(dtype, {rows, cols}, 1), residual = l.random(dtype, {rows, out}, 1);
    const Tensor gain = l.random(dtype, {cols}, 1);
    const auto matrix = [&] {
        return c.mode == QUANTIZATION_MXFP4   ? l.mxfp4(c.out, c.cols)
               : c.mode == QUANTIZATION_NVFP4 ? l.nvfp4(c.out, c.cols)
                                              : l.matrix(c.out, c.cols, c.group, c.bits);
    };
    const Matrix m = matrix(), up = matrix();
    const size_t size = dtype == DT_FLOAT32 ? 4 : 2;
    const auto write_bits = [&](const Tensor &t, int64_t at, uint32_t number) { // of float32
        const uint32_t own = dtype == DT_FLOAT32    ? number
                             : dtype == DT_BFLOAT16 ? number >> 16
                                                    : number >> 16 & 0xfc00u;
        write_bytes(l.stream, t.buffer, at * size, &own, size);
    };
    if (norm == 0) { // the norm of a row with infinities is NaN
        write_bits(x, 3, 0x7f800000u);
        write_bits(x, rows * cols - 1, 0xff800000u);
    }
    if (special_gain != 0) {
        write_bits(gain, 5, special_gain);
    }
    struct {
        uint32_t group_size, bits, norm, epilogue;
        float eps;
        uint32_t dtype;
    } params{group, bits, norm, 0, 1e-5f, 0};
    const auto run = [&](kpx_array input, kpx_array added, kpx_array result, kpx_array second) {
        std::vector<kpx_array> arrays(std::size(Call::kOperands));
        arrays[Call::kX] = input;
        arrays[Call::kGain] = norm != 0 ? gain.array : kpx_array{};
        arrays[Call::kResidual] = params.epilogue == 1 ? added : kpx_array{};
        const Matrix *matrices[] = {&m, &up};
        for (uint32_t i = 0; i < (params.epilogue == 1 ? 1 : 2); i++) {
            arrays[Call::kW + Call::kGroupSize * i] = matrices[i]->w.array;
            arrays[Call::kScales + Call::kGroupSize * i] = matrices[i]->scales.array;
            arrays[Call::kBiases + Call::kGroupSize * i] = c.mode != 0 ? kpx_array{} : matrices[i]->biases.array;
        }
        arrays[Call::kOut] = result;
        arrays[Call::kOut].access = KPX_WRITE;
        if (params.epilogue == 0) {
            arrays[Call::kOut + Call::kGroupSize] = second;
            arrays[Call::kOut + Call::kGroupSize].access = KPX_WRITE;
        }
        kpx_error err{};
        REQUIRE_OK(kpx_op(l.stream.get(), kpx_op_find("projection"), arrays.data(), uint32_t(arrays.size()), &params,
                          sizeof params, &err));
    };
    const auto row_of = [](const Tensor &t, int64_t row) {
        kpx_array a = t.array;
        a.offset = row * a.shape[1];
        a.shape[0] = 1;
        return a;
    };
    for (params.epilogue = 0; params.epilogue < 3; params.epilogue++) {
        const Tensor together = l.empty(dtype, {rows, out}), alone = l.empty(dtype, {rows, out});
        const Tensor together2 = l.empty(dtype, {rows, out}), alone2 = l.empty(dtype, {rows, out});
        run(x.array, residual.array, together.array, together2.array);
        for (int64_t row = 0; row < rows; row++) {
            run(row_of(x, row), row_of(residual, row), row_of(alone, row), row_of(alone2, row));
        }
        const bool same = same_results(l.read(together), l.read(alone), bound) &&
                          (params.epilogue != 0 || same_results(l.read(together2), l.read(alone2), bound));
        if (!same) {
            throw Failure{std::to_string(rows) + " rows of " + std::to_string(cols) + " times " + std::to_string(out) +
                          (mode != 0 ? ", mode " + std::to_string(mode) : "") + ", " + std::to_string(bits) +
                          " bits, groups of " + std::to_string(group) + ", dtype " + std::to_string(dtype) +
                          ", epilogue " + std::to_string(params.epilogue)};
        }
    }
}

// With x in registers; with columns divided among workgroups; and with a dispatch of its own for x.
TEST(a_projection_takes_several_rows) {
    setenv("KOMPUTE_GO_FUSION_ON_CPU", "1", 1);
    const std::string fragments = "projection_fragments.narrow_subgroup_khr,",
                      held = "projection_held.narrow_subgroup_khr8,projection_held.narrow_subgroup_dot8",
                      parts = "projection_parts.narrow_subgroup_khr8,projection_parts.narrow_subgroup_dot8";
    for (const std::string &disabled : {std::string(), held, held + "," + parts}) {
        const std::string all = fragments + disabled;
        kpx_device_options options{};
        options.disabled = all.c_str();
        Device device = open_device(options);
        std::vector<Rows> cases{{5, 352, 40, 32, 1},
                                // Integers span as many columns as the driver's subgroups allow.
                                {5, 640, 40, 128, 1, 4, 0, DT_FLOAT32, 0.0f, kInfinity},
                                {2, 448, 24, 64, 0}, // two rows in a workgroup, and a last chunk with half of its units
                                {3, 384, 24, 32, 1, 4, QUANTIZATION_MXFP4},
                                {5, 448, 24, 16, 0, 4, QUANTIZATION_NVFP4},
                                {5, 352, 24, 32, 1, 4, 0, DT_BFLOAT16}};
        if (disabled == held) { // slices of one part and of two
            cases = {{16, 352, 40, 32, 1},
                     {16, 384, 40, 64, 0, 8},
                     {3, 1024, 17, 128, 0},
                     {5, 448, 24, 64, 0},
                     {3, 352, 24, 32, 1, 4, 0, DT_FLOAT16}};
        } else if (!disabled.empty()) { // on CPU drivers, two blocks of rows in a workgroup
            cases = {{16, 352, 40, 32, 0}, {16, 384, 40, 64, 0, 8}, {16, 640, 40, 128, 1}, {5, 384, 24, 64, 0, 3}};
        }
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
        for (const Rows &c : cases) {
            check_rows(device, c);
        }
    }
}

// With matrices made in registers, where the device passes their check, but not by projection_held.
static Device with_fragments(bool variant) {
    kpx_device_options options{};
    options.batch_variant = variant;
    options.disabled = "projection_held.narrow_subgroup_khr8,projection_held.narrow_subgroup_dot8";
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
        return;
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
                                  {37, 640, 384, 128, 1, 4, 0, DT_FLOAT16}};
    for (const Rows &c : cases) {
        check_rows(device, c);
    }
    CHECK(variants_of(device, "projection_fragments").front().calls == 3 * cases.size()); // each epilogue
}

// Smaller groups, and one digit of x of 16 bits.
TEST(a_projection_rounds_rows_otherwise_if_asked_to) {
    CHECK(stats_of(with_fragments(false)).batch_variant == 0);
    if (!makes_fragments()) {
        return;
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
