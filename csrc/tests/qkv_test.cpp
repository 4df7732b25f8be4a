// The pass "qkv".
#include "layer.hpp"

static constexpr char kOthers[] = "gate_up,residual,norm_projection,attention";

// Products of one row with several matrices; between them, other ops read earlier results.
static std::vector<Tensor> products(Layer &l, const std::vector<int64_t> &rows, bool interleaved) {
    const Tensor x = l.random_row(128);
    std::vector<Tensor> results;
    for (int64_t n : rows) {
        const Matrix m = l.matrix(n, 128);
        Tensor y = l.row(n);
        l.product(x, m, y);
        if (interleaved) {
            Tensor normed = l.row(n);
            l.norm(y, nullptr, normed);
            results.push_back(std::move(normed));
        }
        results.push_back(std::move(y));
    }
    return results;
}

TEST(products_of_one_row_are_fused) {
    Device device = open_device();
    const auto check = [&](const std::vector<int64_t> &rows, bool interleaved, uint64_t ops) {
        check_fused(device, [&](Layer &l) { return products(l, rows, interleaved); }, {ops, kOthers, {}});
    };
    check({40}, false, 1);
    check({40, 24}, false, 1);
    check({40, 24, 8}, false, 1);
    check({40, 24, 8, 72}, false, 2);     // three, and one alone
    check({40, 24, 8, 72, 16}, false, 2); // three and two
    check({40, 24, 8}, true, 4);          // one, and three norms
}

TEST(products_of_a_row_that_changes_stay_apart) {
    Device device = open_device();
    check_fused(device,
                [](Layer &l) {
                    const Tensor x = l.random_row(128), step = l.random_row(128);
                    const Matrix a = l.matrix(16, 128), b = l.matrix(16, 128);
                    std::vector<Tensor> results;
                    results.push_back(l.row(16));
                    results.push_back(l.row(16));
                    l.norm(step, nullptr, x); // the same numbers in every replay
                    l.product(x, a, results[0]);
                    l.norm(results[0], nullptr, results[1]);
                    l.add(step, step, x);
                    l.product(x, b, results[1]);
                    return results;
                },
                {5, kOthers, {}});
}

TEST(products_of_several_rows_are_fused) {
    Device device = open_as_gpu();
    check_fused(device,
                [](Layer &l) {
                    const Tensor x = l.random(DT_FLOAT32, {1, 3, 128}, 1);
                    std::vector<Tensor> results;
                    for (int i = 0; i < 2; i++) {
                        const Matrix m = l.matrix(16, 128);
                        results.push_back(l.empty(DT_FLOAT32, {1, 3, 16}));
                        l.product(x, m, results.back());
                    }
                    return results;
                },
                {1, kOthers, {}});
}

TEST(products_without_biases_are_fused) {
    Device device = open_as_gpu();
    check_fused(device,
                [](Layer &l) {
                    const Tensor x = l.random_row(128);
                    std::vector<Tensor> results;
                    for (int64_t n : {40, 24}) {
                        const Matrix m = l.mxfp4(n, 128);
                        results.push_back(l.row(n));
                        l.product(x, m, results.back());
                    }
                    return results;
                },
                {1, kOthers, {}});
}
