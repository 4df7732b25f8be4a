// paged_sdpa_combine, which runs after a kernel that only some devices have: here by itself, with parts made up, and
// for rows that it computes itself beside paged_sdpa.
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

constexpr uint32_t kQuads = 3 * 4; // of a value, in whole matrices
constexpr uint32_t kPart = kQuads * 4 + PAGED_PART_STATS;

// What paged_sdpa_coopmat2 leaves: [kKeyHeads, ranges, kRows, heads of a key head, kPart].
struct Parts {
    uint32_t ranges;
    std::vector<float> data;

    explicit Parts(uint32_t n) : ranges(n), data(size_t(n) * kRows * kHeads * kPart) {}
    float *at(uint32_t output_row, uint32_t range) {
        const uint32_t group = kHeads / kKeyHeads, row = output_row / kHeads, head = output_row % kHeads;
        const uint32_t before = (head / group * ranges + range) * kRows * group;
        return &data[size_t(before + row * group + head % group) * kPart];
    }
};

std::vector<float> run(const Layer &layer, const kpx::EmbeddedKernel &kernel, const Operands &o, const Parts &parts,
                       const kpx::PagedSDPAParams &p) {
    const uint32_t lanes = 4, threads = 64; // of the smallest subgroup
    const std::vector<uint32_t> spec = {threads,    DT_FLOAT32,     DT_FLOAT32,  DT_FLOAT32,
                                        DT_FLOAT32, kQuads / lanes, parts.ranges};
    const Tensor out = layer.empty(DT_FLOAT32, {kRows, kHeads, kDV});
    const Tensor in = layer.empty(DT_FLOAT32, {int64_t(parts.data.size())});
    std::vector<uint32_t> words(parts.data.size());
    memcpy(words.data(), parts.data.data(), words.size() * 4);
    upload(layer.stream, in.buffer, words);
    std::vector<kpx_array> arrays = o.arrays();
    arrays.push_back(out.array);
    arrays.back().access = KPX_WRITE;
    arrays.push_back(in.array);
    const Algorithm algorithm =
        new_algorithm(layer.device, {kernel.spirv, kernel.end}, uint32_t(arrays.size()), spec, sizeof p);
    const uint32_t groups[3] = {kRows * kHeads, 1, 1}; // at least one row for each
    kpx_error err{};
    REQUIRE_OK(kpx_dispatch(layer.stream.get(), algorithm.get(), arrays.data(), uint32_t(arrays.size()), groups, &p,
                            sizeof p, &err));
    return layer.read(out);
}

void check_close(const std::vector<float> &results, const std::vector<float> &expected) {
    for (size_t i = 0; i < results.size(); i++) {
        const float want = expected[i];
        if (std::isnan(want) ? !std::isnan(results[i])
                             : results[i] != want && !(std::fabs(results[i] - want) < 1e-5f)) {
            fprintf(stderr, "row %zu, element %zu: %g instead of %g\n", i / kDV, i % kDV, double(results[i]),
                    double(want));
            CHECK(results[i] == want);
        }
    }
}

} // namespace

TEST(rows_of_pages_that_are_nan_are_computed) {
    const Device device = open_device();
    Layer layer(device, nullptr);
    const kpx::EmbeddedKernel *kernel = usable_kernel(device, kpx::spec::paged_sdpa_combine::kKernel);
    if (kernel == nullptr) {
        SKIP("the device cannot use the kernel");
    }
    const Operands o = operands(layer);
    const Tensor all = layer.empty(DT_FLOAT32, {kRows, kHeads, kDV});
    std::vector<kpx_array> arrays = o.arrays();
    arrays.push_back(all.array);
    kpx_error err{};
    const struct {
        float scale;
        uint32_t apart;
    } op{0.25f, 0};
    REQUIRE_OK(append_op(layer.stream, "paged_sdpa", arrays, &op, sizeof op, &err));
    std::vector<float> expected = layer.read(all);
    CHECK(std::isnan(expected[0]));
    CHECK(std::isfinite(expected[kDV]) && expected[kDV + 3] == kInf);
    CHECK(expected[(kRows - 1) * kHeads * kDV] == 0);

    const uint32_t kept = 6; // a row that is not marked
    Parts parts(1);
    for (uint32_t row = 0; row < kRows * kHeads; row++) {
        float *part = parts.at(row, 0);
        std::fill_n(part, kPart, 1.0f);
        part[kQuads * 4 + PAGED_PART_EXPONENT] = row == kept ? 3.0f : kNaN;
    }
    std::fill_n(expected.begin() + kept * kDV, kDV, 0.5f); // of 16 weights, in units of 8
    check_close(run(layer, *kernel, o, parts, params(o)), expected);
    CHECK(std::count_if(expected.begin(), expected.end(), [](float x) { return !std::isfinite(x); }) > 2 * kDV);
}

TEST(ranges_of_pages_are_put_together) {
    const Device device = open_device();
    Layer layer(device, nullptr);
    const kpx::EmbeddedKernel *kernel = usable_kernel(device, kpx::spec::paged_sdpa_combine::kKernel);
    if (kernel == nullptr) {
        SKIP("the device cannot use the kernel");
    }
    const std::vector<int32_t> lengths = {600, 256, 257, 0, 1};
    Operands o = operands(layer);
    o.lengths = integers(layer, {kRows}, lengths);
    o.sequences = integers(layer, {kRows}, {0, 1, 0, 1, 1});
    kpx::PagedSDPAParams p = params(o);
    p.capacity = 600;
    Parts parts(3);
    std::vector<float> expected(size_t(kRows) * kHeads * kDV, 0.0f);
    for (uint32_t row = 0; row < kRows * kHeads; row++) {
        double all = 0, tops[3], sums[3];
        const float exponents[3] = {-6, 2, 0};
        for (uint32_t i = 0; i < 3; i++) {
            float *part = parts.at(row, i), *stats = part + kQuads * 4;
            for (uint32_t e = 0; e < kPart; e++)
                part[e] = float((row * 7 + i * 5 + e * 3) % 11) - 4;
            std::fill_n(stats + PAGED_PART_TOP, 16, float(row % 3) - float(i));
            for (uint32_t c = 0; c < 16; c++)
                stats[PAGED_PART_WEIGHTS + c] = float(c + i);
            stats[PAGED_PART_EXPONENT] = exponents[i];
            const bool sees = lengths[row / kHeads] > int32_t(PAGED_RANGE_BEGIN(i));
            if (!sees)
                std::fill_n(part, kPart, kNaN); // as if nobody had written it
            tops[i] = std::exp2(-double(i));
            sums[i] = sees ? 120 + 16 * i : 0;
            all += tops[i] * sums[i];
        }
        for (uint32_t e = 0; e < kDV; e++) {
            double y = 0;
            for (uint32_t i = 0; i < 3; i++)
                y += sums[i] == 0 ? 0 : tops[i] * double(parts.at(row, i)[e]) * std::exp2(exponents[i]) / all;
            expected[size_t(row) * kDV + e] = float(y);
        }
    }
    check_close(run(layer, *kernel, o, parts, p), expected);
}
