// The pass "qkv_heads": queries, keys and values go from sums of parts of their products to attention over pages, with
// the bits that they have as results of these products.
#include "layer.hpp"
#include "ops/gen_ops.hpp"
#include "recorded_lowering.hpp"

namespace {

using Heads = kpx::PagedHeadsCall;
using Step = kpx::PagedStepCall;

struct Case {
    int64_t rows, hidden, q_heads, heads, d;
    bool attends;         // in the same op
    uint32_t bits = 8;    // codes of 4 bits would take projection_held for so little work
    bool gained = true;   // the norm of x
    bool keeps_v = false; // something else reads the values
};

kpx_array as_heads(const Tensor &t, int64_t rows, int64_t heads, kpx_access access = KPX_READ) {
    kpx_array a = t.array;
    const int64_t d = t.size() / rows / heads;
    const int64_t shape[] = {rows, heads, d}, strides[] = {heads * d, d, 1};
    a.rank = 3;
    std::copy(shape, shape + 3, a.shape);
    std::copy(strides, strides + 3, a.strides);
    a.access = access;
    return a;
}

kpx_array numbers(const Tensor &t) {
    kpx_array a = t.array;
    a.dtype = DT_INT32;
    return a;
}

// Each row is a token of a sequence of two pages of 16.
std::vector<Tensor> layer(Layer &l, const Case &c) {
    const Tensor x = l.random_row(c.hidden, c.rows), gain = l.random(l.dtypes.activations, {c.hidden}, 2);
    const Tensor q_gain = l.random(l.dtypes.activations, {c.d}, 2), k_gain = l.random(l.dtypes.activations, {c.d}, 2);
    const Tensor h = l.row(c.hidden, c.rows), q = l.row(c.q_heads * c.d, c.rows), k = l.row(c.heads * c.d, c.rows);
    Tensor v = l.row(c.heads * c.d, c.rows), out = l.row(c.q_heads * c.d, c.rows);
    Tensor keys = l.random(l.dtypes.activations, {2 * c.rows, c.heads, 16, c.d}, 1),
           values = l.random(l.dtypes.activations, {2 * c.rows, c.heads, 16, c.d}, 1);
    const Tensor slots = l.empty(DT_UINT32, {c.rows}), positions = l.empty(DT_UINT32, {c.rows}),
                 lengths = l.empty(DT_UINT32, {c.rows}), sequences = l.empty(DT_UINT32, {c.rows}),
                 table = l.empty(DT_UINT32, {c.rows, 2});
    std::vector<uint32_t> at[4], pages;
    for (uint32_t row = 0; row < uint32_t(c.rows); row++) {
        const uint32_t length = 1 + 5 * row % 32, all[] = {32 * row + length - 1, length - 1, length, row};
        for (uint32_t i = 0; i < 4; i++) {
            at[i].push_back(all[i]);
        }
        pages.insert(pages.end(), {2 * row, 2 * row + 1});
    }
    upload(l.stream, slots.buffer, at[0]);
    upload(l.stream, positions.buffer, at[1]);
    upload(l.stream, lengths.buffer, at[2]);
    upload(l.stream, sequences.buffer, at[3]);
    upload(l.stream, table.buffer, pages);
    l.norm(x, c.gained ? &gain : nullptr, h);
    l.product(h, l.matrix(c.q_heads * c.d, c.hidden, 64, c.bits), q);
    l.product(h, l.matrix(c.heads * c.d, c.hidden, 64, c.bits), k);
    l.product(h, l.matrix(c.heads * c.d, c.hidden, 64, c.bits), v);
    kpx_array all_keys = keys.array, all_values = values.array;
    all_keys.access = all_values.access = KPX_READ_WRITE;
    std::vector<kpx_array> arrays{as_heads(q, c.rows, c.q_heads),
                                  as_heads(k, c.rows, c.heads),
                                  as_heads(v, c.rows, c.heads),
                                  q_gain.array,
                                  k_gain.array,
                                  numbers(positions),
                                  {},
                                  numbers(slots),
                                  all_keys,
                                  all_values};
    if (c.attends) {
        arrays.insert(arrays.end(), {numbers(table), numbers(sequences), numbers(lengths)});
    }
    arrays.push_back(as_heads(out, c.rows, c.q_heads, KPX_WRITE));
    const kpx::PagedStepOp op{{1, 1, 1e-6f, 1e-6f, uint32_t(c.d), 0, 1e6f, 1, 0}, 0.2f};
    kpx_error err{};
    REQUIRE_OK(kpx_op(l.stream.get(), kpx_op_find(c.attends ? "paged_step" : "paged_heads"), arrays.data(),
                      uint32_t(arrays.size()), &op, c.attends ? sizeof op : sizeof op.heads, &err));
    std::vector<Tensor> results;
    results.push_back(std::move(out));
    results.push_back(std::move(keys));
    results.push_back(std::move(values));
    if (c.keeps_v) {
        results.push_back(std::move(v));
    }
    return results;
}

std::vector<std::vector<float>> replayed(const Device &device, const Case &c, const char *disabled, uint64_t ops,
                                         Dtypes dtypes) {
    Layer l(device, disabled, dtypes);
    begin_capture(l.stream);
    const std::vector<Tensor> results = layer(l, c);
    const Region region = end_capture(l.stream);
    replay(l.stream, region, 2);
    CHECK(stats_of(region).fused_ops == ops);
    std::vector<std::vector<float>> values;
    for (const Tensor &t : results) {
        values.push_back(l.read(t));
    }
    return values;
}

void check(const Device &device, const Case &c, uint64_t ops, uint32_t dtype = DT_FLOAT32) {
    const Dtypes dtypes{dtype, DT_BFLOAT16};
    CHECK(replayed(device, c, nullptr, ops, dtypes) == replayed(device, c, "qkv_heads", 2, dtypes));
    check_fused(device, [&](Layer &l) { return layer(l, c); }, {ops, nullptr, dtypes});
}

} // namespace

TEST(heads_are_made_of_sums_of_parts) {
    Device device = open_as_gpu();
    struct Shaped {
        Case shape;
        uint32_t dtype = DT_FLOAT32;
    };
    const std::vector<Shaped> small{{{3, 1152, 4, 2, 128, true}},             // an odd number of parts
                                    {{9, 256, 4, 2, 64, false}, DT_BFLOAT16}, // two blocks of rows
                                    {{3, 256, 4, 4, 96, false, 8, false}},    // no gain
                                    {{4, 640, 4, 2, 64, true}, DT_FLOAT16}};
    // A GPU takes sums of parts for much work only.
    const std::vector<Shaped> large{{{8, 2560, 32, 8, 128, true, 4}},
                                    {{32, 2560, 32, 8, 128, false, 4}},
                                    {{33, 2560, 32, 8, 128, false, 4}, DT_BFLOAT16}};
    for (const Shaped &c : is_cpu_driver() ? some_of(small) : large) {
        check(device, c.shape, 1, c.dtype);
    }
}

TEST(heads_stay_apart) {
    Device device = open_as_gpu();
    check(device, {3, 256, 4, 2, 64, true, 8, true, true}, 2);
    check(device, {2, 256, 4, 2, 64, true}, 2); // two rows take no sums of parts
}

namespace {

std::vector<std::string> kernels(int64_t rows, bool attends) {
    const auto array = &RecordedLowering::array;
    RecordedLowering lowering;
    lowering.traits.compute_units = 132;
    lowering.words.insert("khr8");
    const kpx::Array n = array(DT_INT32, {rows}), pages = array(DT_FLOAT32, {300, 8, 64, 128}), none;
    std::vector<kpx::Array> arrays{
        array(DT_FLOAT32, {rows, 2560}), array(DT_FLOAT32, {2560}), none, none, n, none, n, pages, pages};
    if (attends) {
        arrays.insert(arrays.end(), {array(DT_INT32, {64, 4}), n, n});
    } else {
        arrays.insert(arrays.end(), 3, none);
    }
    arrays.push_back(array(DT_FLOAT32, {rows, 32, 128}));
    for (const int64_t heads : {32, 8, 8}) {
        arrays.insert(arrays.end(), {array(DT_UINT32, {heads * 128, 320}), array(DT_BFLOAT16, {heads * 128, 20}),
                                     array(DT_BFLOAT16, {heads * 128, 20})});
    }
    const kpx::QKVHeadsOp op{{128, 4, 1, PROJECTION_STORE, 1e-6f, 0}, {0, 0, 0, 0, 128, 0, 1e6f, 1, 0}, 0.1f};
    kpx::lower_qkv_heads(lowering, {arrays.data(), uint32_t(arrays.size()), op});
    std::vector<std::string> found;
    for (const RecordedDispatch &d : lowering.dispatches) {
        found.push_back(d.kernel);
    }
    return found;
}

} // namespace

TEST(heads_of_4b_on_a_large_gpu) {
    using namespace kpx::spec;
    CHECK((kernels(8, true) == std::vector<std::string>{projection_parts::kKernel, paged_step::kKernel}));
    CHECK((kernels(32, false) == std::vector<std::string>{projection_fragments::kKernel, paged_heads::kKernel}));
}
