#include "layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/embedded.hpp"

namespace {

uint32_t bytes_of(uint32_t dtype) {
    return dtype == DT_FLOAT32 || dtype == DT_UINT32 ? 4 : 2;
}

uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}

float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

// Truncated rather than rounded, and without subnormals: any numbers will do.
uint32_t encode(float v, uint32_t dtype) {
    const uint32_t bits = bits_of(v), magnitude = bits & 0x7fffffffu;
    if (dtype == DT_FLOAT32) {
        return bits;
    }
    if (dtype == DT_BFLOAT16) {
        return bits >> 16;
    }
    return magnitude < 0x38800000u ? 0 : (bits >> 16 & 0x8000u) | (magnitude - 0x38000000u) >> 13;
}

float decode(uint32_t bits, uint32_t dtype) {
    if (dtype == DT_FLOAT32) {
        return float_of(bits);
    }
    if (dtype == DT_BFLOAT16) {
        return float_of(bits << 16);
    }
    const uint32_t magnitude = bits & 0x7fffu, sign = (bits & 0x8000u) << 16;
    if (magnitude < 0x400u) {
        return float_of(bits_of(float(magnitude) * 0x1p-24f) | sign);
    }
    return float_of(((magnitude << 13) + (magnitude < 0x7c00u ? 0x38000000u : 0x70000000u)) | sign);
}

} // namespace

int64_t Tensor::size() const {
    int64_t n = 1;
    for (uint32_t i = 0; i < array.rank; i++) {
        n *= array.shape[i];
    }
    return n;
}

Layer::Layer(const Device &shared, const char *disabled, Dtypes dtypes_)
    : own_(disabled == nullptr ? Device() : open_without_passes(disabled)), device(own_ ? own_ : shared),
      dtypes(dtypes_), stream(new_stream(device)) {}

Tensor Layer::empty(uint32_t dtype, const std::vector<int64_t> &shape) const {
    Tensor t{nullptr, array_of(nullptr, dtype, shape)};
    t.buffer = new_storage(device, (uint64_t(t.size()) * bytes_of(dtype) + 3) / 4 * 4);
    t.array.tensor = t.buffer.get();
    return t;
}

Tensor Layer::random(uint32_t dtype, const std::vector<int64_t> &shape, float size) {
    Tensor t = empty(dtype, shape);
    const size_t n = size_t(t.size());
    std::vector<uint32_t> words((n * bytes_of(dtype) + 3) / 4);
    for (size_t i = 0; i < n; i++) {
        if (dtype == DT_UINT32) {
            words[i] = random_.next() ^ random_.next() << 16;
            continue;
        }
        const uint32_t bits = encode((float(random_.below(20001)) / 10000.0f - 1.0f) * size, dtype);
        words[bytes_of(dtype) == 4 ? i : i / 2] |= bytes_of(dtype) == 4 ? bits : bits << (i % 2 * 16);
    }
    upload(stream, t.buffer, words);
    return t;
}

Matrix Layer::matrix(int64_t n, int64_t k, uint32_t group, uint32_t bits) {
    const float size = 1.0f / float(1u << bits);
    return {random(DT_UINT32, {n, k / 32 * bits}, 0), random(dtypes.scales, {n, k / group}, size),
            random(dtypes.scales, {n, k / group}, 0.5f), group, bits};
}

Matrix Layer::small_floats(int64_t n, int64_t k, uint32_t group, uint32_t mode, uint32_t four_scales) {
    Tensor scales = empty(DT_UINT32, {n, k / group / 4});
    upload(stream, scales.buffer, std::vector<uint32_t>(size_t(n * k / group / 4), four_scales));
    scales.array.dtype = DT_UINT8;
    scales.array.shape[1] = scales.array.strides[0] = k / group;
    return {random(DT_UINT32, {n, k / 8}, 0), std::move(scales), {}, group, 4, mode};
}

Matrix Layer::mxfp4(int64_t n, int64_t k) {
    return small_floats(n, k, 32, QUANTIZATION_MXFP4, 0x7c7b7d7cu); // about 1/8
}

Matrix Layer::nvfp4(int64_t n, int64_t k) {
    return small_floats(n, k, 16, QUANTIZATION_NVFP4, 0x1c21231eu);
}

void Layer::norm(const Tensor &x, const Tensor *gain, const Tensor &out) {
    kpx_error err{};
    const float eps = 1e-5f;
    REQUIRE_OK(append_op(stream, "rms_norm", {x.array, gain ? gain->array : kpx_array{}, out.array}, &eps, 4, &err));
}

void Layer::product(const Tensor &x, const Matrix &m, const Tensor &out) {
    kpx_error err{};
    const uint32_t params[4] = {m.group, m.bits, m.mode, 1};
    const kpx_array biases = m.mode == 0 ? m.biases.array : kpx_array{};
    REQUIRE_OK(append_op(stream, "quantized_matmul", {x.array, m.w.array, m.scales.array, biases, out.array}, params,
                         sizeof params, &err));
}

void Layer::add(const Tensor &a, const Tensor &b, const Tensor &out) {
    kpx_error err{};
    const uint32_t kind = 0;
    REQUIRE_OK(append_op(stream, "binary", {a.array, b.array, out.array}, &kind, 4, &err));
}

void Layer::silu_mul(const Tensor &gate, const Tensor &up, const Tensor &out) {
    kpx_error err{};
    const uint32_t reserved = 0;
    REQUIRE_OK(append_op(stream, "silu_mul", {gate.array, up.array, out.array}, &reserved, 4, &err));
}

std::vector<float> Layer::read(const Tensor &tensor) const {
    const size_t n = size_t(tensor.size());
    const uint32_t dtype = tensor.array.dtype;
    const std::vector<uint32_t> words = download(stream, tensor.buffer, (n * bytes_of(dtype) + 3) / 4);
    std::vector<float> values;
    for (size_t i = 0; i < n; i++) {
        values.push_back(decode(bytes_of(dtype) == 4 ? words[i] : words[i / 2] >> (i % 2 * 16) & 0xffffu, dtype));
    }
    return values;
}

static std::vector<std::vector<float>> read_all(const Layer &layer, const std::vector<Tensor> &results) {
    std::vector<std::vector<float>> all;
    for (const Tensor &result : results) {
        all.push_back(layer.read(result));
    }
    return all;
}

static void check_close(const std::vector<std::vector<float>> &got, const std::vector<std::vector<float>> &want,
                        float tolerance) {
    CHECK(got.size() == want.size());
    for (size_t r = 0; r < got.size(); r++) {
        float largest = 0;
        for (float v : want[r]) {
            largest = std::max(largest, std::fabs(v));
        }
        CHECK(largest > 0 && got[r].size() == want[r].size());
        for (size_t i = 0; i < got[r].size(); i++) {
            if (!(std::fabs(got[r][i] - want[r][i]) <= tolerance * largest)) {
                throw Failure{"result " + std::to_string(r) + "[" + std::to_string(i) +
                              "]: " + std::to_string(got[r][i]) + ", not " + std::to_string(want[r][i]) +
                              " of at most " + std::to_string(largest)};
            }
        }
    }
}

void check_fused(const Device &device, const Build &build, const Expected &expected) {
    // With 16-bit types, intermediate results are rounded only when the ops run one by one.
    const float tolerance = expected.dtypes.activations == DT_FLOAT32   ? 1e-5f
                            : expected.dtypes.activations == DT_FLOAT16 ? 4e-3f
                                                                        : 3e-2f;
    Layer eager(device, nullptr, expected.dtypes); // no passes run over it
    const std::vector<std::vector<float>> want = read_all(eager, build(eager));

    Layer captured(device, expected.disabled, expected.dtypes);
    begin_capture(captured.stream);
    const std::vector<Tensor> results = build(captured);
    const Region region = end_capture(captured.stream);
    replay(captured.stream, region, 2);
    check_close(read_all(captured, results), want, tolerance);
    if (stats_of(region).fused_ops != expected.ops) {
        throw Failure{"ops left: " + std::to_string(stats_of(region).fused_ops) + ", not " +
                      std::to_string(expected.ops)};
    }
}

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
