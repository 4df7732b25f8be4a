// The pass "projection_arg_max": the largest of the products of a row, or the token that greedy takes, without the
// products.

#include "layer.hpp"
#include "types.h"

namespace {

struct Case {
    int64_t n, k;
    uint32_t bits = 4;
    bool norm = true;
    bool keep = false;  // something else reads the products
    bool equal = false; // all of them are equal
    uint32_t dtype = DT_FLOAT32;
    uint32_t kind = REDUCE_ARG_MAX;
    uint32_t scale = 0; // with equal: the bits of two scales in bfloat16
};

// Appends the ops and returns the index; what is not kept is transient.
Tensor append(Layer &l, const Case &c, std::vector<Tensor> &kept) {
    Tensor x = l.random_row(c.k), h = l.row(c.k), logits = l.row(c.n), index = l.empty(DT_UINT32, {1, 1});
    Matrix m = l.matrix(c.n, c.k, 32, c.bits);
    if (c.equal) {
        const size_t words = size_t(m.scales.size() + 1) / 2;
        upload(l.stream, m.scales.buffer, std::vector<uint32_t>(words, c.scale));
        upload(l.stream, m.biases.buffer, std::vector<uint32_t>(words));
    }
    if (c.norm) {
        l.norm(x, nullptr, h);
    }
    l.product(c.norm ? h : x, m, logits);
    kpx_error err{};
    REQUIRE_OK(append_op(l.stream, "reduce", {logits.array, index.array}, &c.kind, 4, &err));
    if (c.keep) {
        kept.push_back(std::move(logits));
    }
    return index;
}

void check(const Device &device, const Case &c, uint64_t ops) {
    const Dtypes dtypes{c.dtype, DT_BFLOAT16};
    std::vector<Tensor> kept;
    Layer unfused(device, nullptr, dtypes); // eager work
    const Tensor wanted = append(unfused, c, kept);
    const uint32_t want = download(unfused.stream, wanted.buffer, 1)[0];
    if (c.kind == REDUCE_GREEDY && c.scale != 0) {
        CHECK(want == UINT32_MAX);
    } else {
        CHECK(want < uint64_t(c.n) && (!c.equal || want == 0));
    }

    Layer captured(device, nullptr, dtypes);
    begin_capture(captured.stream);
    const Tensor index = append(captured, c, kept);
    const Region region = end_capture(captured.stream);
    replay(captured.stream, region, 2);
    CHECK(download(captured.stream, index.buffer, 1)[0] == want);
    CHECK(stats_of(region).fused_ops == ops);
}

// Most cases have that many products, and share pipelines. An even number: buffers have whole words here, and products
// that do not fill theirs are kept.
constexpr int64_t kRows = 30010;

void any_products(const Device &device) {
    for (int64_t n : some_of<int64_t>({kRows, 1, 7, 64, 1000})) {
        check(device, {n, 64}, 1);
    }
    const std::vector<Case> cases{{300, 256, 3, false},
                                  {300, 256, 8},
                                  {64, 32, 4, false, false, true, DT_FLOAT16},
                                  {64, 32, 4, false, false, true, DT_BFLOAT16}};
    for (const Case &c : some_of(cases)) {
        check(device, c, 1);
    }
}

void the_first_of_equal_products(const Device &device) {
    check(device, {kRows, 64, 4, true, false, true}, 1);
}

void no_token_from_products_that_are_not_finite(const Device &device) {
    constexpr uint32_t kNaNs = 0x7fc07fc0;
    for (const uint32_t dtype : some_of<uint32_t>({DT_FLOAT32, DT_FLOAT16, DT_BFLOAT16})) {
        check(device, {.n = kRows, .k = 64, .equal = true, .dtype = dtype, .kind = REDUCE_GREEDY, .scale = kNaNs}, 1);
    }
    check(device, {.n = kRows, .k = 64, .equal = true, .scale = kNaNs}, 1); // arg_max: the first NaN
}

void products_that_somebody_wants_to_see(const Device &device) {
    check(device, {kRows, 64, 4, true, true}, 2);
}

} // namespace

// On one device, so that a pipeline that several of them use is compiled once.
TEST(the_largest_product_of_a_row_is_one_op) {
    Device device = open_as_gpu();
    any_products(device);
    the_first_of_equal_products(device);
    no_token_from_products_that_are_not_finite(device);
    products_that_somebody_wants_to_see(device);
}
