// The op "projection", for all quantizations, dtypes and sizes that it supports.

#include <cmath>

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
