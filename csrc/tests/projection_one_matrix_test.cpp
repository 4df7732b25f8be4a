// Matrices whose rows follow each other in memory: kernels read them as one, and each gives what it gives alone.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "layer.hpp"
#include "ops/gen_ops.hpp"
#include "ops/projection_operands.hpp"
#include "recorded_lowering.hpp"

using Call = kpx::ProjectionCall;

namespace {

// Some rows of a matrix.
struct Part {
    kpx_array w, scales, biases; // biases: absent but for affine codes

    Part(const Matrix &m, int64_t first, int64_t n)
        : w(rows_of(m.w, first, n)), scales(rows_of(m.scales, first, n)),
          biases(m.mode == 0 ? rows_of(m.biases, first, n) : kpx_array{}) {}

  private:
    static kpx_array rows_of(const Tensor &t, int64_t first, int64_t n) {
        kpx_array rows = t.array;
        rows.offset += first * rows.strides[0];
        rows.shape[0] = n;
        return rows;
    }
};

struct Projection {
    Layer &l;
    const Tensor &x;
    const Tensor *gain;
    uint32_t group;

    // The results of the matrices, or the single one of an epilogue.
    std::vector<std::vector<float>> run(const std::vector<Part> &matrices, uint32_t epilogue) {
        const struct {
            uint32_t group_size, bits, norm, epilogue;
            float eps;
            uint32_t dtype;
        } params{group, 4, gain != nullptr, epilogue, 1e-5f, 0};
        std::vector<kpx_array> arrays(std::size(Call::kOperands));
        arrays[Call::kX] = x.array;
        if (gain != nullptr) {
            arrays[Call::kGain] = gain->array;
        }
        std::vector<Tensor> results;
        for (uint32_t i = 0; i < matrices.size(); i++) {
            const Part &m = matrices[i];
            arrays[Call::kW + Call::kGroupSize * i] = m.w;
            arrays[Call::kScales + Call::kGroupSize * i] = m.scales;
            arrays[Call::kBiases + Call::kGroupSize * i] = m.biases;
            if (epilogue == PROJECTION_STORE || i == 0) {
                results.push_back(l.empty(DT_FLOAT32, {x.array.shape[0], m.w.shape[0]}));
                arrays[Call::kOut + Call::kGroupSize * i] = results.back().array;
                arrays[Call::kOut + Call::kGroupSize * i].access = KPX_WRITE;
            }
        }
        kpx_error err{};
        REQUIRE_OK(kpx_op(l.stream.get(), kpx_op_find("projection"), arrays.data(), uint32_t(arrays.size()), &params,
                          sizeof params, &err));
        std::vector<std::vector<float>> values;
        for (const Tensor &result : results) {
            values.push_back(l.read(result));
        }
        return values;
    }
};

bool same_bits(const std::vector<float> &a, const std::vector<float> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
        return memcmp(&x, &y, sizeof x) == 0 || (std::isnan(x) && std::isnan(y));
    });
}

struct Case {
    int64_t x_rows, cols;
    std::array<int64_t, 3> rows; // of three matrices, one after the other in memory
    bool norm, mxfp4 = false;
};

// Without a norm, x has an infinity, so that sums that are not finite are computed again.
void check_one_matrix(const Device &device, const Case &c) {
    Layer l(device, nullptr);
    const Tensor x = l.random(DT_FLOAT32, {c.x_rows, c.cols}, 1), gain = l.random(DT_FLOAT32, {c.cols}, 1);
    if (!c.norm) {
        const uint32_t infinity = 0x7f800000u;
        write_bytes(l.stream, x.buffer, 5 * sizeof infinity, &infinity, sizeof infinity);
    }
    const int64_t second = c.rows[0], third = second + c.rows[1], n = third + c.rows[2];
    const Matrix all = c.mxfp4 ? l.mxfp4(n, c.cols) : l.matrix(n, c.cols);
    const std::vector<Part> parts{{all, 0, c.rows[0]}, {all, second, c.rows[1]}, {all, third, c.rows[2]}};
    Projection projection{l, x, c.norm ? &gain : nullptr, c.mxfp4 ? 32u : 128u};
    const auto together = projection.run(parts, PROJECTION_STORE);
    for (size_t i = 0; i < parts.size(); i++) {
        CHECK(same_bits(together[i], projection.run({parts[i]}, PROJECTION_STORE)[0]));
    }
    if (c.rows[0] != c.rows[1] || !c.norm) {
        return;
    }
    const std::vector<float> gated = projection.run({parts[0], parts[1]}, PROJECTION_SILU_MUL)[0];
    for (size_t i = 0; i < gated.size(); i++) {
        const float gate = together[0][i], expected = gate / (1 + std::exp(-gate)) * together[1][i];
        CHECK(std::abs(gated[i] - expected) <= 1e-5f * std::max(1.0f, std::abs(expected)));
    }
}

// Three matrices whose words, scales and biases begin at these rows of common ones.
struct Placed {
    std::array<kpx::Array, 9> arrays;
    kpx::Array none;
    kpx::ProjectionOperands m{none, none, none, none, {}, 3, 128, 1, {}};

    Placed(const std::array<int64_t, 3> &words_from, const std::array<int64_t, 3> &scales_from,
           const std::array<int64_t, 3> &rows) {
        for (uint32_t i = 0; i < 3; i++) {
            arrays[3 * i] = RecordedLowering::array(DT_UINT32, {rows[i], 16});
            arrays[3 * i + 1] = arrays[3 * i + 2] = RecordedLowering::array(DT_BFLOAT16, {rows[i], 1});
            arrays[3 * i].offset = words_from[i] * 16 % 64;
            arrays[3 * i].base = words_from[i] * 64 - arrays[3 * i].offset * 4; // bindings begin at multiples of 256
            arrays[3 * i + 1].offset = arrays[3 * i + 2].offset = scales_from[i];
            m.matrices[i] = {&arrays[3 * i], &arrays[3 * i + 1], &arrays[3 * i + 2], &none};
        }
    }
};

} // namespace

TEST(only_matrices_that_follow_each_other_are_one) {
    const std::array<int64_t, 3> rows{32, 18, 7}, from{0, 32, 50};
    const Placed placed(from, from, rows);
    const kpx::OneMatrix one(placed.m, 1);
    CHECK(one.exists() && one.alone().count == 1 && one.alone().w(0).dim(0) == 57);
    CHECK(one.for_bindings().count == 3 && one.for_bindings().biases(2).dim(0) == 57);
    kpx::ProjectionSet sets[3];
    for (uint32_t i = 0; i < 3; i++) {
        sets[i] = kpx::projection_set(placed.m, i);
    }
    one.place(sets);
    CHECK(sets[1].w_offset == 32 * 16 && sets[2].w_offset == 50 * 16 && sets[2].s_offset == 50 && sets[2].n == 7);

    CHECK(!kpx::OneMatrix(placed.m, 16).exists()); // the second one ends within a tile
    CHECK(!kpx::OneMatrix(Placed({0, 32, 51}, from, rows).m, 1).exists());
    CHECK(!kpx::OneMatrix(Placed(from, {0, 32, 49}, rows).m, 1).exists());
    CHECK(!kpx::OneMatrix(Placed({18, 0, 50}, {18, 0, 50}, {32, 18, 7}).m, 1).exists());
    Placed single(from, from, rows);
    single.m.count = 1;
    CHECK(!kpx::OneMatrix(single.m, 1).exists() && kpx::OneMatrix(single.m, 1).alone().count == 1);
}

// Covers projection, projection_held and, on CPU drivers, projection_parts; where the device has tensor cores, kernels
// of more rows as well.
TEST(matrices_that_follow_each_other_give_what_each_gives_alone) {
    setenv("KOMPUTE_GO_FUSION_ON_CPU", "1", 1);
    const char *held = "projection_held.narrow_subgroup_khr8,projection_held.narrow_subgroup_dot8";
    for (const char *disabled : {"", held}) {
        kpx_device_options options{};
        options.disabled = disabled;
        const Device device = open_device(options);
        const bool has_matrices = variants_of(device, "projection_coopmat").front().state == KPX_VARIANT_USABLE;
        std::vector<Case> cases{{1, 256, {40, 24, 17}, false},
                                {1, 256, {24, 24, 8}, true},
                                {1, 256, {24, 24, 8}, true, true},
                                {3, 256, {24, 24, 17}, true}};
        if (disabled == held) {
            cases = {{9, 256, {48, 48, 32}, true}};
        }
        if (has_matrices || runs_every_case()) {
            cases.insert(cases.end(), {{3, 256, {40, 24, 17}, false},
                                       {3, 256, {40, 24, 17}, false, true},
                                       {16, 512, {48, 48, 32}, false},
                                       {16, 512, {48, 48, 32}, true, true}});
        }
        if (has_matrices) { // without tensor cores, so many rows take several ops
            cases.insert(cases.end(), {{40, 512, {48, 48, 32}, true}, {40, 512, {40, 24, 17}, false}});
        }
        for (const Case &c : cases) {
            check_one_matrix(device, c);
        }
    }
}
