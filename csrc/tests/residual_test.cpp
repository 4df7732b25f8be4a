// The pass "residual".
#include "layer.hpp"

static constexpr char kOthers[] = "gate_up,qkv,norm_projection,attention";

enum Side { kLeft, kRight, kBoth, kBroadcast };

static std::vector<Tensor> residual(Layer &l, Side side, bool keep) {
    const Tensor x = l.random_row(256), old = l.random_row(40);
    const Matrix m = l.matrix(40, 256);
    Tensor y = l.row(40);
    std::vector<Tensor> results;
    results.push_back(l.row(40));
    l.product(x, m, y);
    switch (side) {
    case kLeft:
        l.add(y, old, results[0]);
        break;
    case kRight:
        l.add(old, y, results[0]);
        break;
    case kBoth:
        l.add(y, y, results[0]);
        break;
    case kBroadcast: {
        Tensor one = l.random_row(1);
        one.array.shape[2] = 40;
        one.array.strides[2] = 0;
        l.add(one, y, results[0]);
    }
    }
    if (keep) {
        results.push_back(std::move(y));
    }
    return results;
}

TEST(a_residual_is_fused) {
    Device device = open_device();
    for (Side side : {kLeft, kRight}) {
        for (uint32_t dtype : some_of<uint32_t>({DT_FLOAT32, DT_FLOAT16, DT_BFLOAT16})) {
            check_fused(device, [&](Layer &l) { return residual(l, side, false); }, {1, kOthers, {dtype, DT_BFLOAT16}});
        }
    }
}

TEST(a_residual_stays_apart) {
    Device device = open_device();
    check_fused(device, [](Layer &l) { return residual(l, kLeft, true); }, {2, kOthers, {}});
    check_fused(device, [](Layer &l) { return residual(l, kBoth, false); }, {2, kOthers, {}});
    check_fused(device, [](Layer &l) { return residual(l, kBroadcast, false); }, {2, kOthers, {}});
}

// Both operands are products: one of them takes the other as its residual.
TEST(a_sum_of_products_is_fused_once) {
    Device device = open_device();
    check_fused(device,
                [](Layer &l) {
                    const Tensor x = l.random_row(128), a = l.row(16), b = l.row(16);
                    const Matrix m = l.matrix(16, 128), n = l.matrix(16, 128);
                    std::vector<Tensor> results;
                    results.push_back(l.row(16));
                    l.product(x, m, a);
                    l.product(x, n, b);
                    l.add(a, b, results[0]);
                    return results;
                },
                {2, kOthers, {}});
}
