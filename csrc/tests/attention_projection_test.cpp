// The pass "attention_projection": attention and the product that reads it are one op, with parts between them.

#include "layer.hpp"
#include "ops/gen_ops.hpp"

namespace {

using Step = kpx::AttentionStepOp;

struct Case {
    int64_t q_heads, heads, d, capacity;
    int32_t position;
    bool residual = true;
    bool keep = false; // something else reads the result of attention
};

kpx_array rows(const Tensor &t, int64_t heads, kpx_access access) {
    kpx_array a = t.array;
    a.rank = 2;
    a.shape[0] = heads;
    a.shape[1] = a.strides[0] = t.size() / heads;
    a.strides[1] = 1;
    a.access = access;
    return a;
}

kpx_array of_state(const Tensor &state, int64_t offset, int64_t n) {
    kpx_array a = state.array;
    a.dtype = DT_INT32;
    a.offset = offset;
    a.shape[0] = n;
    return a;
}

std::vector<Tensor> layer(Layer &l, const Case &c) {
    const uint32_t dtype = l.dtypes.activations;
    const int64_t cols = c.q_heads * c.d;
    Tensor q = l.random_row(cols), k = l.random_row(c.heads * c.d), v = l.random_row(c.heads * c.d),
           heads = l.row(cols);
    Tensor keys = l.random(dtype, {1, c.heads, c.capacity, c.d}, 1),
           values = l.random(dtype, {1, c.heads, c.capacity, c.d}, 1);
    Tensor state = l.empty(DT_UINT32, {5}), x = l.random_row(64), product = l.row(64), sum = l.row(64);
    const Matrix m = l.matrix(64, cols, 32);
    upload(l.stream, state.buffer, {0, 0, uint32_t(c.position), 0, uint32_t(c.position) + 1});
    kpx_array all_keys = keys.array, all_values = values.array;
    all_keys.access = all_values.access = KPX_READ_WRITE;
    const Step step{1, 1, 1e-5f, 1e-5f, uint32_t(c.d), 0, 10000, 1, 0, 0, uint32_t(c.capacity), 0.2f};
    std::vector<kpx_array> arrays{rows(q, c.q_heads, KPX_READ),
                                  rows(k, c.heads, KPX_READ),
                                  rows(v, c.heads, KPX_READ),
                                  {},
                                  {},
                                  of_state(state, 2, 1),
                                  of_state(state, 0, 4),
                                  of_state(state, 4, 1),
                                  {},
                                  all_keys,
                                  all_values,
                                  rows(heads, c.q_heads, KPX_WRITE)};
    kpx_error err{};
    REQUIRE_OK(kpx_op(l.stream.get(), kpx_op_find("attention_step"), arrays.data(), uint32_t(arrays.size()), &step,
                      sizeof step, &err));
    l.product(heads, m, product);
    std::vector<Tensor> results;
    if (c.residual) {
        l.add(x, product, sum);
    }
    results.push_back(std::move(c.residual ? sum : product));
    results.push_back(std::move(keys));
    results.push_back(std::move(values));
    if (c.keep) {
        results.push_back(std::move(heads));
    }
    return results;
}

void check(const Device &device, const Case &c, uint64_t ops, uint32_t dtype = DT_FLOAT32) {
    check_fused(device, [&](Layer &l) { return layer(l, c); }, {ops, nullptr, {dtype, DT_BFLOAT16}});
}

} // namespace

TEST(attention_and_its_product_are_one_op) {
    Device device = open_as_gpu();
    for (int32_t position : {0, 63, 64, 199}) { // some or none of the parts have keys
        check(device, {4, 2, 64, 200, position}, 1);
    }
    struct Shaped {
        Case shape;
        uint32_t dtype = DT_FLOAT32;
    };
    const std::vector<Shaped> cases{{{3, 1, 128, 1500, 1300}}, // several chunks in each part
                                    {{4, 2, 64, 40, 20}},      // one part
                                    {{4, 4, 8, 100, 99, false}},
                                    {{4, 2, 32, 200, 150}, DT_FLOAT16},
                                    {{4, 2, 32, 200, 150}, DT_BFLOAT16}};
    for (const Shaped &c : some_of(cases)) {
        check(device, c.shape, 1, c.dtype);
    }
}

TEST(attention_that_somebody_wants_to_see_stays_apart) {
    Device device = open_as_gpu();
    check(device, {4, 2, 64, 200, 100, true, true}, 2);
    check(device, {8, 2, 12, 200, 100}, 2); // heads whose length is not a multiple of eight
}
