// The pass "attention": the fused op gives the same results as the ops that it replaces.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "test.hpp"

namespace {

struct Shape {
    int64_t q_heads, heads, d, capacity;
};

struct Case {
    Shape shape;
    uint32_t dtype = DT_FLOAT32;
    bool norms = true, gains = true, rotate = true, traditional = false, freqs = false;
    int64_t dims = 0; // 0: all of d
    bool on_device = true;
    bool keep_norm = false; // the handle of the queries after the norm stays alive
};

uint32_t element_bytes(uint32_t dtype) {
    return dtype == DT_FLOAT32 ? 4 : 2;
}

// bfloat16 and float32 only, whose bits are the upper half of a float's, or all of them.
float decode(const std::vector<uint32_t> &words, uint32_t dtype, size_t i) {
    const uint32_t bits = dtype == DT_FLOAT32 ? words[i] : (words[i / 2] >> (i % 2 * 16)) << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

std::vector<uint32_t> random_words(Random &random, uint32_t dtype, int64_t n, float size) {
    std::vector<uint32_t> words(size_t(dtype == DT_FLOAT32 ? n : (n + 1) / 2));
    for (int64_t i = 0; i < n; i++) {
        const float value = (float(random.below(20001)) / 10000.0f - 1.0f) * size;
        uint32_t bits;
        memcpy(&bits, &value, 4);
        if (dtype == DT_FLOAT32) {
            words[size_t(i)] = bits;
        } else {
            words[size_t(i) / 2] |= (bits >> 16) << (i % 2 * 16);
        }
    }
    return words;
}

// A layer's attention over the C ABI, on a stream with or without fusion.
class Layer {
  public:
    // disabled: passes to disable, for which it opens a device of its own; nullptr: none.
    Layer(const Device &device, const Case &c, const char *disabled)
        : own_(disabled == nullptr ? Device() : open_without_passes(disabled)), device_(own_ ? own_ : device),
          case_(c) {
        stream = new_stream(device_);
        const Shape &s = c.shape;
        Random random{7};
        q_ = filled(random, s.q_heads * s.d, 1);
        k_ = filled(random, s.heads * s.d, 1);
        v_ = filled(random, s.heads * s.d, 1);
        q_gain_ = filled(random, s.d, 2);
        k_gain_ = filled(random, s.d, 2);
        keys = filled(random, s.heads * s.capacity * s.d, 1);
        values = filled(random, s.heads * s.capacity * s.d, 1);
        freqs_ = new_storage(device_, uint64_t(s.d) * 2);
        std::vector<float> periods;
        for (int64_t i = 0; i < s.d / 2; i++) {
            periods.push_back(1.0f + 3.0f * float(i));
        }
        std::vector<uint32_t> bits(periods.size());
        memcpy(bits.data(), periods.data(), periods.size() * 4);
        upload(stream, freqs_, bits);
        state_ = new_storage(device_, 20);
        out = new_storage(device_, uint64_t(s.q_heads * s.d) * element_bytes(c.dtype));
        flush(stream);
    }

    void set_position(int32_t position) {
        position_ = position;
        upload(stream, state_, {0, 0, uint32_t(position), 0, uint32_t(position + 1)});
    }

    // Appends the ops of one token, in the same way as a model.
    void append() {
        const Shape &s = case_.shape;
        const Storage q = rotated(q_, q_gain_, s.q_heads), k = rotated(k_, k_gain_, s.heads);
        const kpx_array token = by_head(q, s.q_heads);
        const uint32_t dtype = case_.dtype;
        update(keys, k ? by_head(k, s.heads) : by_head(k_, s.heads));
        update(values, by_head(v_, s.heads));
        kpx_array all_keys = cache(keys), all_values = cache(values), length = state(4, 1), none{};
        if (!case_.on_device) {
            all_keys.shape[2] = all_values.shape[2] = position_ + 1;
            length = none;
        }
        struct {
            float scale;
            uint32_t causal;
        } params{1 / std::sqrt(float(s.d)), 1};
        kpx_error err{};
        REQUIRE_OK(append_op(stream, "sdpa",
                             {q ? token : by_head(q_, s.q_heads), all_keys, all_values, none, length,
                              array_of(out, dtype, {1, s.q_heads, 1, s.d})},
                             &params, sizeof params, &err));
    }

    std::vector<float> read(const Storage &buffer, int64_t n) {
        const std::vector<uint32_t> words = download(stream, buffer, size_t(n * element_bytes(case_.dtype) + 3) / 4);
        std::vector<float> values_read;
        for (size_t i = 0; i < size_t(n); i++) {
            values_read.push_back(decode(words, case_.dtype, i));
        }
        return values_read;
    }
    std::vector<float> result() { return read(out, case_.shape.q_heads * case_.shape.d); }
    std::vector<float> cached(const Storage &buffer) {
        return read(buffer, case_.shape.heads * case_.shape.capacity * case_.shape.d);
    }

    Stream stream;
    Storage keys, values, out;

  private:
    Storage filled(Random &random, int64_t n, float size) {
        const std::vector<uint32_t> words = random_words(random, case_.dtype, n, size);
        Storage buffer = new_storage(device_, words.size() * 4);
        upload(stream, buffer, words);
        return buffer;
    }
    kpx_array by_head(const Storage &buffer, int64_t heads) const {
        kpx_array a = array_of(buffer, case_.dtype, {1, 1, heads, case_.shape.d});
        std::swap(a.shape[1], a.shape[2]);
        std::swap(a.strides[1], a.strides[2]);
        return a;
    }
    kpx_array cache(const Storage &buffer) const {
        return array_of(buffer, case_.dtype, {1, case_.shape.heads, case_.shape.capacity, case_.shape.d});
    }
    kpx_array state(int64_t first, int64_t n) const {
        kpx_array a = array_of(state_, DT_INT32, {n});
        a.offset = first;
        return a;
    }

    // The heads after norm and rotation; null if there is neither.
    Storage rotated(const Storage &x, const Storage &gain, int64_t heads) {
        kpx_error err{};
        const Shape &s = case_.shape;
        const uint64_t bytes = uint64_t(heads * s.d) * element_bytes(case_.dtype);
        const kpx_array none{};
        Storage normed, turned;
        if (case_.norms) {
            const float eps = 1e-5f;
            normed = new_storage(device_, bytes);
            REQUIRE_OK(append_op(stream, "rms_norm",
                                 {array_of(x, case_.dtype, {1, 1, heads, s.d}),
                                  case_.gains ? array_of(gain, case_.dtype, {s.d}) : none,
                                  array_of(normed, case_.dtype, {1, 1, heads, s.d})},
                                 &eps, 4, &err));
        }
        if (!case_.rotate) {
            return normed;
        }
        struct {
            uint32_t dims, traditional;
            float base, scale;
            int32_t offset;
        } params{uint32_t(case_.dims != 0 ? case_.dims : s.d), case_.traditional, 1e6f, 1, position_};
        turned = new_storage(device_, bytes);
        const kpx_array freqs = array_of(freqs_, DT_FLOAT32, {int64_t(params.dims / 2)});
        REQUIRE_OK(append_op(stream, "rope",
                             {by_head(normed ? normed : x, heads), case_.on_device ? state(2, 1) : none,
                              case_.freqs ? freqs : none, array_of(turned, case_.dtype, {1, heads, 1, s.d})},
                             &params, sizeof params, &err));
        if (case_.keep_norm && !kept_) {
            kept_ = std::move(normed);
        }
        return turned;
    }

    void update(const Storage &to, const kpx_array &token) {
        kpx_error err{};
        int32_t start[8] = {0, 0, case_.on_device ? 0 : position_};
        kpx_array dst = cache(to), from = case_.on_device ? state(0, 4) : kpx_array{};
        dst.access = KPX_READ_WRITE;
        kpx_array arrays[3] = {dst, token, from};
        REQUIRE_OK(kpx_op(stream.get(), kpx_op_find("slice_update"), arrays, 3, start, sizeof start, &err));
    }

    const Device own_;
    const Device &device_;
    const Case case_;
    int32_t position_ = 0;
    Storage q_, k_, v_, q_gain_, k_gain_, freqs_, state_, kept_;
};

void check_close(const std::vector<float> &got, const std::vector<float> &want, float tolerance,
                 const std::string &what) {
    for (size_t i = 0; i < want.size(); i++) {
        if (!(std::fabs(got[i] - want[i]) <= tolerance * (1 + std::fabs(want[i])))) {
            throw Failure{WHERE + what + ": element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
                          std::to_string(want[i])};
        }
    }
}

// Runs a token at each position, with and without fusion.
void compare(const Device &device, const Case &c, const std::vector<int32_t> &positions, uint64_t dispatches = 1) {
    const float tolerance = c.dtype == DT_FLOAT32 ? 2e-5f : 2e-2f;
    Layer fused(device, c, nullptr), plain(device, c, "all");
    for (int32_t position : positions) {
        for (Layer *layer : {&fused, &plain}) {
            layer->set_position(position);
            flush(layer->stream);
            begin_capture(layer->stream);
            layer->append();
            const Region region = end_capture(layer->stream);
            const uint64_t runs = stats_of(region).dispatches;
            CHECK(layer == &plain ? runs > 2 : runs == dispatches);
            replay(layer->stream, region);
        }
        const std::string what = "heads of " + std::to_string(c.shape.d) + " at " + std::to_string(position);
        check_close(fused.result(), plain.result(), tolerance, what);
    }
    check_close(fused.cached(fused.keys), plain.cached(plain.keys), tolerance, "keys");
    check_close(fused.cached(fused.values), plain.cached(plain.values), 0, "values");
}

} // namespace

TEST(attention_of_one_token_is_one_dispatch) {
    Device device = open_as_gpu();
    compare(device, {{4, 2, 128, 1280}}, {0, 1, 5, 62, 63, 64, 65, 300, 1100, 1279, 7});
    compare(device, {{4, 2, 128, 50}}, {0, 1, 49});
    compare(device, {{2, 2, 128, 9000}}, {0, 4095, 4096, 4097, 8999}); // more keys than all splits process at once
}

TEST(attention_takes_positions_from_the_host) {
    Device device = open_as_gpu();
    Case c{{4, 2, 128, 512}};
    c.on_device = false;
    compare(device, c, {0, 3, 63, 64, 100, 511});
}

TEST(attention_takes_every_shape_of_heads) {
    Device device = open_as_gpu();
    const std::vector<Shape> shapes{{14, 2, 80, 200}, {8, 2, 256, 130}, {5, 1, 20, 200}, {8, 1, 32, 700},
                                    {8, 2, 256, 700}, {3, 1, 16, 300},  {6, 2, 96, 900}, {1, 1, 4, 100}};
    for (const Shape &shape : some_of(shapes)) {
        compare(device, {shape}, {0, 10, 64, 99});
    }
}

// Norms and rotation in every form: where each kernel takes seconds to compile, all
// that differs from the rest at once, and neither of them.
TEST(attention_norms_and_rotates_in_every_form) {
    Device device = open_as_gpu();
    std::vector<Case> cases(2, {{4, 2, 64, 200}});
    cases[0].norms = cases[0].rotate = false;
    cases[1].gains = false, cases[1].traditional = cases[1].freqs = true, cases[1].dims = 24;
    for (int i = 0; i < 16 && runs_every_case(); i++) {
        Case c{{4, 2, 64, 200}};
        if (i < 8) {
            c.norms = (i & 1) != 0, c.gains = (i & 2) != 0, c.rotate = (i & 4) != 0;
        } else {
            c.traditional = (i & 1) != 0, c.freqs = (i & 2) != 0, c.dims = (i & 4) != 0 ? 24 : 0;
        }
        cases.push_back(c);
    }
    for (const Case &c : cases) {
        compare(device, c, {0, 70, 150});
    }
}

TEST(attention_in_bfloat16) {
    Device device = open_as_gpu();
    Case c{{4, 2, 128, 300}};
    c.dtype = DT_BFLOAT16;
    compare(device, c, {0, 63, 64, 200});
}

TEST(attention_leaves_what_others_see) {
    Device device = open_as_gpu();
    Case c{{4, 2, 64, 100}};
    c.keep_norm = true;
    compare(device, c, {40}, 3); // the norms stay; the rest is one op
}

// Each run must leave the counters of the splits as they were.
TEST(attention_replays) {
    Device device = open_as_gpu();
    const Case c{{4, 2, 128, 1280}};
    Layer fused(device, c, nullptr), plain(device, c, "all");
    std::vector<Region> regions;
    for (Layer *layer : {&fused, &plain}) {
        begin_capture(layer->stream);
        layer->append();
        regions.push_back(end_capture(layer->stream));
    }
    CHECK(stats_of(regions[0]).dispatches == 1 && stats_of(regions[1]).dispatches > 2);
    for (int32_t position : {700, 701, 20, 1000, 300}) {
        for (size_t i = 0; i < 2; i++) {
            Layer &layer = i == 0 ? fused : plain;
            layer.set_position(position);
            replay(layer.stream, regions[i], 20);
        }
        check_close(fused.result(), plain.result(), 2e-5f, "replay at " + std::to_string(position));
    }
}
