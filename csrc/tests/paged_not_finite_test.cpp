// paged_sdpa_not_finite, which runs behind a kernel that only some devices have: here by itself, beside paged_sdpa.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gen_kernels.hpp"
#include "layer.hpp"
#include "runtime/embedded.hpp"

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kRows = 5, kHeads = 4, kKeyHeads = 2, kD = 20, kDV = 44, kPage = 4, kPages = 3;

Tensor integers(Layer &layer, const std::vector<int64_t> &shape, const std::vector<int32_t> &values) {
    Tensor t = layer.empty(DT_UINT32, shape);
    upload(layer.stream, t.buffer, {values.begin(), values.end()});
    t.array.dtype = DT_INT32;
    return t;
}

void put(const Layer &layer, const Tensor &t, size_t at, float value) {
    std::vector<uint32_t> words = download(layer.stream, t.buffer, size_t(t.size()));
    memcpy(&words[at], &value, 4);
    upload(layer.stream, t.buffer, words);
}

void fill_strides(uint32_t *to, const kpx_array &a) {
    for (uint32_t i = 0; i < a.rank; i++) {
        to[i] = uint32_t(a.strides[i]);
    }
}

struct Operands {
    Tensor q, keys, values, table, sequences, lengths;
    std::vector<kpx_array> arrays() const {
        return {q.array, keys.array, values.array, table.array, sequences.array, lengths.array};
    }
};

// A page and a sequence that do not exist, a row that sees nothing, and numbers that are not finite.
Operands operands(Layer &layer) {
    Operands o{layer.random(DT_FLOAT32, {kRows, kHeads, kD}, 1),
               layer.random(DT_FLOAT32, {kPages, kKeyHeads, kPage, kD}, 1),
               layer.random(DT_FLOAT32, {kPages, kKeyHeads, kPage, kDV}, 1),
               integers(layer, {2, 3}, {2, -1, 0, 1, 7, 1}),
               integers(layer, {kRows}, {0, 1, 0, 5, 1}),
               integers(layer, {kRows}, {12, 7, 1, 3, 0})};
    put(layer, o.values, 0 * kDV + 3, kInf);                            // page 0, head 0
    put(layer, o.values, (kKeyHeads * kPage + kPage) * kDV + 43, kNaN); // page 1, head 1
    put(layer, o.keys, (2 * kKeyHeads * kPage + kPage + 1) * kD, kNaN); // page 2, head 1, token 1
    // A key of row 0 that is all or nothing to the query heads that read it.
    put(layer, o.keys, kD, kInf); // page 0, head 0, token 1
    put(layer, o.q, 0, 0.5f);
    put(layer, o.q, kD, -0.5f);
    put(layer, o.q, (kRows - 1) * kHeads * kD, kNaN); // of the row that sees nothing
    return o;
}

kpx::PagedSDPAParams params(const Operands &o) {
    kpx::PagedSDPAParams p{};
    p.rows = kRows;
    p.key_heads = kKeyHeads;
    p.group = kHeads / kKeyHeads;
    p.d = kD;
    p.dv = kDV;
    p.page = kPage;
    p.pages = kPages;
    p.sequences = 2;
    p.capacity = 12;
    fill_strides(p.q_strides, o.q.array);
    fill_strides(p.k_strides, o.keys.array);
    fill_strides(p.v_strides, o.values.array);
    fill_strides(p.table_strides, o.table.array);
    p.sequence_stride = p.length_stride = 1;
    p.scale = 0.25f;
    return p;
}

// The results of the kernel for what out holds.
std::vector<float> run(const Layer &layer, const kpx::EmbeddedKernel &kernel, const Operands &o, const Tensor &out) {
    const uint32_t lanes = 4, threads = 64; // of the smallest subgroup
    const std::vector<uint32_t> spec = {threads,    DT_FLOAT32, DT_FLOAT32,
                                        DT_FLOAT32, DT_FLOAT32, (kDV + lanes - 1) / lanes};
    const kpx::PagedSDPAParams p = params(o);
    std::vector<kpx_array> arrays = o.arrays();
    arrays.push_back(out.array);
    arrays.back().access = KPX_READ_WRITE;
    const Algorithm algorithm =
        new_algorithm(layer.device, {kernel.spirv, kernel.end}, uint32_t(arrays.size()), spec, sizeof p);
    const uint32_t groups[3] = {1, 1, 1};
    kpx_error err{};
    REQUIRE_OK(kpx_dispatch(layer.stream.get(), algorithm.get(), arrays.data(), uint32_t(arrays.size()), groups, &p,
                            sizeof p, &err));
    return layer.read(out);
}

// The kernel, or nullptr if the device cannot run it.
const kpx::EmbeddedKernel *usable_kernel(const Device &device, const char *name) {
    std::vector<kpx_variant> variants(kpx_list_variants(device.get(), nullptr, 0));
    kpx_list_variants(device.get(), variants.data(), variants.size());
    for (size_t i = 0; i < variants.size(); i++) { // in the order of the embedded ones
        if (strcmp(variants[i].kernel, name) == 0 && variants[i].state == KPX_VARIANT_USABLE) {
            return &kpx::embedded_kernels[i];
        }
    }
    return nullptr;
}

} // namespace

TEST(rows_of_pages_that_are_nan_are_computed) {
    const Device device = open_device();
    Layer layer(device, nullptr);
    const kpx::EmbeddedKernel *kernel = usable_kernel(device, kpx::spec::paged_sdpa_not_finite::kKernel);
    if (kernel == nullptr) {
        return;
    }
    const Operands o = operands(layer);
    const Tensor all = layer.empty(DT_FLOAT32, {kRows, kHeads, kDV});
    std::vector<kpx_array> arrays = o.arrays();
    arrays.push_back(all.array);
    kpx_error err{};
    const float scale = 0.25f;
    REQUIRE_OK(append_op(layer.stream, "paged_sdpa", arrays, &scale, 4, &err));
    const std::vector<float> expected = layer.read(all);
    CHECK(std::isnan(expected[0]));
    CHECK(std::isfinite(expected[kDV]) && expected[kDV + 3] == kInf);
    CHECK(expected[(kRows - 1) * kHeads * kDV] == 0);

    const Tensor out = layer.empty(DT_FLOAT32, {kRows, kHeads, kDV});
    std::vector<float> before(expected.size(), kNaN);
    const size_t kept = 6; // an output row that is there already
    std::fill_n(before.begin() + kept * kDV, kDV, 7.0f);
    std::vector<uint32_t> words(before.size());
    memcpy(words.data(), before.data(), words.size() * 4);
    upload(layer.stream, out.buffer, words);
    const std::vector<float> results = run(layer, *kernel, o, out);
    size_t special = 0;
    for (size_t i = 0; i < results.size(); i++) {
        const float want = i / kDV == kept ? 7.0f : expected[i];
        special += !std::isfinite(want);
        if (std::isnan(want) ? !std::isnan(results[i])
                             : results[i] != want && !(std::fabs(results[i] - want) < 1e-5f)) {
            fprintf(stderr, "row %zu, element %zu: %g instead of %g\n", i / kDV, i % kDV, double(results[i]),
                    double(want));
            CHECK(results[i] == want);
        }
    }
    CHECK(special > 2 * kDV);
}
