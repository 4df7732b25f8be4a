// sdpa_combine, which runs where workgroups share the keys of rows: here by itself, since CPU drivers do not share
// them.
#include <cmath>
#include <cstring>
#include <limits>

#include "gen_kernels.hpp"
#include "layer.hpp"
#include "runtime/embedded.hpp"

namespace {

constexpr uint32_t kRows = 5, kRanges = 3, kDV = 44;
constexpr float kLowest = -3.4e38f; // the highest score of a range in which a row sees no key

struct Part {
    float element, highest, weight;
};

std::vector<float> run(const Layer &layer, const kpx::EmbeddedKernel &kernel, const Part (&parts)[kRows][kRanges]) {
    std::vector<uint32_t> words;
    const auto put = [&](float v) {
        words.emplace_back();
        memcpy(&words.back(), &v, 4);
    };
    for (const auto &row : parts) {
        for (const Part &part : row) {
            for (uint32_t e = 0; e < kDV; e++)
                put(e % 2 ? -part.element : part.element);
            put(part.highest);
            put(part.weight);
        }
    }
    const Tensor in = layer.empty(DT_FLOAT32, {int64_t(words.size())}), out = layer.empty(DT_FLOAT32, {kRows, kDV});
    upload(layer.stream, in.buffer, words);
    kpx_array arrays[] = {in.array, out.array};
    arrays[1].access = KPX_WRITE;
    const kpx::SDPACombineParams p{kRows, kRanges, kDV, 0};
    const Algorithm algorithm = new_algorithm(layer.device, {kernel.spirv, kernel.end}, 2, {64, DT_FLOAT32}, sizeof p);
    const uint32_t groups[3] = {1, 1, 1};
    kpx_error err{};
    REQUIRE_OK(kpx_dispatch(layer.stream.get(), algorithm.get(), arrays, 2, groups, &p, sizeof p, &err));
    return layer.read(out);
}

} // namespace

TEST(ranges_of_keys_are_averaged_by_their_weight) {
    const Device device = open_device();
    Layer layer(device, nullptr);
    const kpx::EmbeddedKernel *kernel = usable_kernel(device, kpx::spec::sdpa_combine::kKernel);
    CHECK(kernel != nullptr);
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const Part parts[kRows][kRanges] = {
        {{1, 2, 3}, {5, 1, 2}, {9, 4, 0.25f}},               // weights 3/4, 1/4 and 1/4 relative to the last range
        {{1, 0, 2}, {0, kLowest, 0}, {4, 0, 1}},             // no key in the second range
        {{0, kLowest, 0}, {0, kLowest, 0}, {0, kLowest, 0}}, // no key at all
        {{2e38f, 0, 16384}, {3e38f, 0, 16384}, {1e38f, 0, 32768}}, // the sums would not be finite
        {{inf, -3, 1}, {1, 0, 1}, {1, 0, nan}},
    };
    const float expected[kRows] = {(0.75f * 1 + 0.25f * 5 + 0.25f * 9) / 1.25f, 2, 0, 1.75e38f, nan};
    const std::vector<float> results = run(layer, *kernel, parts);
    for (uint32_t row = 0; row < kRows; row++) {
        for (uint32_t e = 0; e < kDV; e++) {
            const float got = results[row * kDV + e], want = e % 2 ? -expected[row] : expected[row];
            CHECK(std::isnan(want) ? std::isnan(got) : std::fabs(got - want) <= 1e-6f * std::fabs(want));
        }
    }
}
