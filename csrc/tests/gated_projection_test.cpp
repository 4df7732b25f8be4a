// The pass "gated_projection". That it fuses many rows, on a device with the kernels for it, is in
// ops/fused_products_test.go.
#include "layer.hpp"

static constexpr char kOthers[] = "gate_up,qkv,residual,norm_projection,attention";

static std::vector<Tensor> gated(Layer &l, int64_t rows, bool keep) {
    const int64_t k = 256, n = 64;
    const Tensor gate = l.random(DT_FLOAT32, {1, rows, k}, 1), up = l.random(DT_FLOAT32, {1, rows, k}, 1);
    Tensor mlp = l.empty(DT_FLOAT32, {1, rows, k});
    const Matrix down = l.matrix(n, k);
    std::vector<Tensor> results;
    results.push_back(l.empty(DT_FLOAT32, {1, rows, n}));
    l.silu_mul(gate, up, mlp);
    l.product(mlp, down, results[0]);
    if (keep) {
        results.push_back(std::move(mlp));
    }
    return results;
}

TEST(a_gated_product_stays_apart) {
    Device device = open_device();
    check_fused(device, [](Layer &l) { return gated(l, 2, false); }, {2, kOthers, {}});
    check_fused(device, [](Layer &l) { return gated(l, 70, true); }, {2, kOthers, {}});
}
