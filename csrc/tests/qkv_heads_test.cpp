// The pass "qkv_heads": queries, keys and values go from sums of parts of their products to attention over pages, with
// the bits that they have as results of these products.
#include "layer.hpp"
#include "ops/gen_ops.hpp"
#include "recorded_lowering.hpp"

namespace {

struct Case {
    int64_t rows, hidden, q_heads, heads, d;
    bool attends; // in the same op
    uint32_t dtype = DT_FLOAT32;
    bool joint = false;   // the matrices' rows follow one another in memory
    bool codes = false;   // pages of 8-bit codes
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

// The product of x with n rows of the matrix, from one on.
void product_of_rows(Layer &l, const Tensor &x, const Matrix &m, int64_t first, int64_t n, const Tensor &out) {
    const auto rows = [&](kpx_array a) {
        a.offset += first * a.strides[0];
        a.shape[0] = n;
        return a;
    };
    kpx_error err{};
    const uint32_t params[4] = {m.group, m.bits, m.mode, 1};
    REQUIRE_OK(append_op(l.stream, "quantized_matmul",
                         {x.array, rows(m.w.array), rows(m.scales.array), rows(m.biases.array), out.array}, params,
                         sizeof params, &err));
}

void products(Layer &l, const Case &c, const Tensor &x, const Tensor (&out)[3]) {
    const int64_t n[] = {c.q_heads * c.d, c.heads * c.d, c.heads * c.d}, first[] = {0, n[0], n[0] + n[1]};
    if (c.joint) {
        const Matrix all = l.matrix(n[0] + 2 * n[1], c.hidden, 128, c.bits);
        for (int i = 0; i < 3; i++) {
            product_of_rows(l, x, all, first[i], n[i], out[i]);
        }
        return;
    }
    for (int i = 0; i < 3; i++) {
        l.product(x, l.matrix(n[i], c.hidden, 128, c.bits), out[i]);
    }
}

// Keys or values: two pages of 16 tokens for each row.
Tensor pages(Layer &l, const Case &c) {
    const std::vector<int64_t> shape{2 * c.rows, c.heads, 16, c.d};
    if (!c.codes) {
        return l.random(l.dtypes.activations, shape, 1);
    }
    const int64_t words = c.d / 4 + c.d / CACHE_GROUP;
    Tensor t = l.empty(DT_UINT32, {shape[0], shape[1], shape[2], words});
    upload(l.stream, t.buffer, std::vector<uint32_t>(size_t(t.size())));
    t.array.dtype = DT_UINT8;
    for (uint32_t axis = 0; axis < 3; axis++) {
        t.array.strides[axis] *= 4;
    }
    t.array.shape[3] *= 4;
    return t;
}

// Each row is a token of a sequence of its own.
std::vector<Tensor> layer(Layer &l, const Case &c) {
    const Tensor x = l.random_row(c.hidden, c.rows), gain = l.random(l.dtypes.activations, {c.hidden}, 2);
    const Tensor q_gain = l.random(l.dtypes.activations, {c.d}, 2), k_gain = l.random(l.dtypes.activations, {c.d}, 2);
    const Tensor h = l.row(c.hidden, c.rows);
    Tensor made[3] = {l.row(c.q_heads * c.d, c.rows), l.row(c.heads * c.d, c.rows), l.row(c.heads * c.d, c.rows)};
    Tensor out = l.row(c.q_heads * c.d, c.rows), keys = pages(l, c), values = pages(l, c);
    const Tensor slots = l.empty(DT_UINT32, {c.rows}), positions = l.empty(DT_UINT32, {c.rows}),
                 lengths = l.empty(DT_UINT32, {c.rows}), sequences = l.empty(DT_UINT32, {c.rows}),
                 table = l.empty(DT_UINT32, {c.rows, 2});
    std::vector<uint32_t> at[4], numbers_of_pages;
    for (uint32_t row = 0; row < uint32_t(c.rows); row++) {
        const uint32_t length = 1 + 5 * row % 32, all[] = {32 * row + length - 1, length - 1, length, row};
        for (uint32_t i = 0; i < 4; i++) {
            at[i].push_back(all[i]);
        }
        numbers_of_pages.insert(numbers_of_pages.end(), {2 * row, 2 * row + 1});
    }
    upload(l.stream, slots.buffer, at[0]);
    upload(l.stream, positions.buffer, at[1]);
    upload(l.stream, lengths.buffer, at[2]);
    upload(l.stream, sequences.buffer, at[3]);
    upload(l.stream, table.buffer, numbers_of_pages);
    l.norm(x, c.gained ? &gain : nullptr, h);
    products(l, c, h, made);
    kpx_array all_keys = keys.array, all_values = values.array;
    all_keys.access = all_values.access = KPX_READ_WRITE;
    std::vector<kpx_array> arrays{as_heads(made[0], c.rows, c.q_heads),
                                  as_heads(made[1], c.rows, c.heads),
                                  as_heads(made[2], c.rows, c.heads),
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
        results.push_back(std::move(made[2]));
    }
    return results;
}

std::vector<std::vector<uint32_t>> replayed(const Device &device, const Case &c, const char *disabled, uint64_t ops) {
    Layer l(device, disabled, {c.dtype, DT_BFLOAT16});
    begin_capture(l.stream);
    const std::vector<Tensor> results = layer(l, c);
    const Region region = end_capture(l.stream);
    replay(l.stream, region, 2);
    CHECK(stats_of(region).fused_ops == ops);
    std::vector<std::vector<uint32_t>> words;
    for (const Tensor &t : results) {
        const uint32_t bytes = t.array.dtype == DT_FLOAT32 ? 4 : t.array.dtype == DT_UINT8 ? 1 : 2;
        words.push_back(download(l.stream, t.buffer, size_t(t.size()) * bytes / 4));
    }
    return words;
}

void check(const Device &device, const Case &c) {
    CHECK(replayed(device, c, nullptr, 1) == replayed(device, c, "qkv_heads", 2));
    if (!c.codes) {
        check_fused(device, [&](Layer &l) { return layer(l, c); }, {1, nullptr, {c.dtype, DT_BFLOAT16}});
    }
}

} // namespace

TEST(heads_are_made_of_sums_of_parts) {
    Device device = open_as_gpu();
    if (!is_cpu_driver()) { // a GPU takes sums of parts for much work only
        const auto large = [&](int64_t rows, int64_t hidden, bool attends, uint32_t dtype, bool joint, bool codes) {
            check(device, {rows, hidden, 32, 8, 128, attends, dtype, joint, codes, 4});
        };
        large(8, 2560, true, DT_FLOAT32, true, false);
        large(5, 4096, true, DT_BFLOAT16, false, false); // slices of two parts
        large(8, 2560, true, DT_FLOAT32, true, true);
        large(32, 2560, false, DT_FLOAT32, true, false); // projection_fragments, where the device has it
        large(33, 4096, false, DT_FLOAT16, false, true);
        return;
    }
    const std::vector<Case> attending{{3, 1152, 4, 2, 128, true}, {4, 640, 4, 2, 64, true, DT_FLOAT16}};
    const std::vector<Case> preparing{{9, 256, 4, 2, 64, false, DT_BFLOAT16, true},
                                      {3, 256, 4, 4, 96, false, DT_FLOAT32, false, false, 8, false},
                                      {5, 384, 4, 2, 64, false, DT_FLOAT32, true, true}};
    for (const std::vector<Case> &cases : {attending, preparing}) {
        for (const Case &c : some_of(cases)) {
            check(device, c);
        }
    }
}

TEST(heads_stay_apart) {
    Device device = open_as_gpu();
    replayed(device, {3, 256, 4, 2, 64, true, DT_FLOAT32, false, false, 8, true, true}, nullptr, 2);
    replayed(device, {2, 256, 4, 2, 64, true}, nullptr, 2); // two rows take no sums of parts
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
    CHECK((kernels(8, true) == std::vector<std::string>{projection_fragments::kKernel, paged_step::kKernel}));
    CHECK((kernels(32, false) == std::vector<std::string>{projection_fragments::kKernel, paged_heads::kKernel}));
}
