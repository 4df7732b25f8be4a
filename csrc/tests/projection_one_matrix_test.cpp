// Matrices whose rows follow each other in memory: kernels read them as one, and each gives what it gives alone.

#include <cmath>
#include <cstdlib>

#include "layer.hpp"
#include "ops/gen_ops.hpp"

using Call = kpx::ProjectionCall;

namespace {

// Some rows of a matrix.
struct Part {
    kpx_array w, scales, biases;

    Part(const Matrix &m, int64_t first, int64_t n)
        : w(rows_of(m.w, first, n)), scales(rows_of(m.scales, first, n)), biases(rows_of(m.biases, first, n)) {}

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

    // The results of the matrices, or the single one of an epilogue.
    std::vector<std::vector<float>> run(const std::vector<Part> &matrices, uint32_t epilogue) {
        const struct {
            uint32_t group_size, bits, norm, epilogue;
            float eps;
            uint32_t dtype;
        } params{128, 4, gain != nullptr, epilogue, 1e-5f, 0};
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

// Three matrices of these rows, the second after the first one in memory, and the third after that.
void check_one_matrix(const Device &device, int64_t x_rows, int64_t cols, const std::vector<int64_t> &rows, bool norm) {
    Layer l(device, nullptr);
    const Tensor x = l.random(DT_FLOAT32, {x_rows, cols}, 1), gain = l.random(DT_FLOAT32, {cols}, 1);
    const Matrix all = l.matrix(rows[0] + rows[1] + rows[2], cols);
    const std::vector<Part> parts{{all, 0, rows[0]}, {all, rows[0], rows[1]}, {all, rows[0] + rows[1], rows[2]}};
    Projection projection{l, x, norm ? &gain : nullptr};
    const auto together = projection.run(parts, PROJECTION_STORE);
    for (size_t i = 0; i < parts.size(); i++) {
        CHECK(together[i] == projection.run({parts[i]}, PROJECTION_STORE)[0]);
    }
    if (rows[0] != rows[1]) {
        return;
    }
    const std::vector<float> gated = projection.run({parts[0], parts[1]}, PROJECTION_SILU_MUL)[0];
    for (size_t i = 0; i < gated.size(); i++) {
        const float gate = together[0][i], expected = gate / (1 + std::exp(-gate)) * together[1][i];
        CHECK(std::abs(gated[i] - expected) <= 1e-5f * std::max(1.0f, std::abs(expected)));
    }
}

} // namespace

// By projection, projection_held, projection_parts, and, where the device has tensor cores, kernels of more rows.
TEST(matrices_that_follow_each_other_give_what_each_gives_alone) {
    setenv("KOMPUTE_GO_FUSION_ON_CPU", "1", 1);
    const char *held = "projection_held.narrow_subgroup_khr8,projection_held.narrow_subgroup_dot8";
    for (const char *disabled : {"", held}) {
        kpx_device_options options{};
        options.disabled = disabled;
        const Device device = open_device(options);
        const bool has_matrices = variants_of(device, "projection_coopmat").front().state == KPX_VARIANT_USABLE;
        if (*disabled == 0) {
            check_one_matrix(device, 1, 512, {40, 24, 17}, false);
            check_one_matrix(device, 3, 256, {40, 24, 17}, true);
        } else {
            check_one_matrix(device, 9, 256, {48, 48, 32}, false);
        }
        if (has_matrices || runs_every_case()) {
            for (int64_t x_rows : {1, 3, 16}) {
                check_one_matrix(device, x_rows, 512, {48, 48, 32}, true);
            }
        }
        if (has_matrices) { // elsewhere, so many rows are not one op
            check_one_matrix(device, 40, 512, {48, 48, 32}, true);
            check_one_matrix(device, 40, 512, {40, 24, 17}, false);
        }
    }
}
