// The pass "norm_projection".
#include "layer.hpp"

static constexpr char kOthers[] = "attention";

static std::vector<Tensor> normed(Layer &l, bool gained, bool keep, int products) {
    const Tensor x = l.random_row(256), gain = l.random(l.dtypes.activations, {256}, 2);
    Tensor h = l.row(256);
    std::vector<Tensor> results;
    l.norm(x, gained ? &gain : nullptr, h);
    for (int i = 0; i < products; i++) {
        const Matrix m = l.matrix(24, 256);
        results.push_back(l.row(24));
        l.product(h, m, results.back());
    }
    if (keep) {
        results.push_back(std::move(h));
    }
    return results;
}

TEST(a_norm_is_fused) {
    Device device = open_device();
    for (bool gained : {false, true}) {
        check_fused(device, [&](Layer &l) { return normed(l, gained, false, 1); }, {1, kOthers, {}});
        check_fused(device, [&](Layer &l) { return normed(l, gained, false, 3); }, {1, kOthers, {}});
    }
}

TEST(a_norm_stays_apart) {
    Device device = open_device();
    check_fused(device, [](Layer &l) { return normed(l, true, true, 1); }, {2, kOthers, {}});
    check_fused(device, [](Layer &l) { return normed(l, true, false, 4); }, {3, kOthers, {}});
    check_fused( // norms of parts of the row
        device,
        [](Layer &l) {
            const Tensor heads = l.random(DT_FLOAT32, {2, 128}, 1), h = l.empty(DT_FLOAT32, {2, 128});
            Tensor row = l.empty(DT_FLOAT32, {1, 256});
            row.array.tensor = h.buffer.get();
            const Matrix m = l.matrix(24, 256);
            std::vector<Tensor> results;
            results.push_back(l.row(24));
            results[0].array.rank = 2; // [1, 24]
            results[0].array.shape[1] = 24;
            results[0].array.strides[1] = 1;
            l.norm(heads, nullptr, h);
            l.product(row, m, results[0]);
            return results;
        },
        {2, kOthers, {}});
}

// The second half of a block, as a model enqueues it: two ops are left, then one.
TEST(a_gated_mlp_is_two_ops) {
    Device device = open_device();
    check_fused(device,
                [](Layer &l) {
                    const Tensor x = l.random_row(128), gain = l.random(DT_FLOAT32, {128}, 1), h = l.row(128),
                                 gate = l.row(384), up = l.row(384), mlp = l.row(384), y = l.row(128);
                    const Matrix g = l.matrix(384, 128), u = l.matrix(384, 128), down = l.matrix(128, 384);
                    std::vector<Tensor> results;
                    results.push_back(l.row(128));
                    l.norm(x, &gain, h);
                    l.product(h, g, gate);
                    l.product(h, u, up);
                    l.silu_mul(gate, up, mlp);
                    l.product(mlp, down, y);
                    l.add(x, y, results[0]);
                    return results;
                },
                {2, kOthers, {}});
}
