// The pass "gate_up".
#include "layer.hpp"

static constexpr char kOthers[] = "qkv,residual,norm_projection,attention";

// SiLU(x * gate) * (x * up). keep: the handle of the gate's product stays alive.
static std::vector<Tensor> gate_up(Layer &l, bool keep, bool swapped, uint32_t up_bits) {
    const Tensor x = l.random_row(256);
    Tensor gate = l.row(72), up = l.row(72);
    const Matrix g = l.matrix(72, 256), u = l.matrix(72, 256, 128, up_bits);
    std::vector<Tensor> results;
    results.push_back(l.row(72));
    if (swapped) { // whichever order the calls have
        l.product(x, u, up);
        l.product(x, g, gate);
    } else {
        l.product(x, g, gate);
        l.product(x, u, up);
    }
    l.silu_mul(gate, up, results[0]);
    if (keep) {
        results.push_back(std::move(gate));
    }
    return results;
}

TEST(gate_and_up_are_fused) {
    Device device = open_device();
    for (bool swapped : {false, true}) {
        check_fused(device, [&](Layer &l) { return gate_up(l, false, swapped, 4); }, {1, kOthers, {}});
    }
}

TEST(gate_and_up_stay_apart) {
    Device device = open_device();
    check_fused(device, [](Layer &l) { return gate_up(l, true, false, 4); }, {3, kOthers, {}});
    check_fused(device, [](Layer &l) { return gate_up(l, false, false, 8); }, {3, kOthers, {}});
    check_fused( // products of two inputs
        device,
        [](Layer &l) {
            const Tensor x = l.random_row(128), y = l.random_row(128), gate = l.row(16), up = l.row(16);
            const Matrix g = l.matrix(16, 128), u = l.matrix(16, 128);
            std::vector<Tensor> results;
            results.push_back(l.row(16));
            l.product(x, g, gate);
            l.product(y, u, up);
            l.silu_mul(gate, up, results[0]);
            return results;
        },
        {3, kOthers, {}});
}
