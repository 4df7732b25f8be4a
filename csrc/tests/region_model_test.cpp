// Random programs over parts of buffers, some of which have lost their handles when
// the capture ends: each replay must change the others as a model on the host does.
#include "test.hpp"

namespace {

constexpr uint32_t kParts = 4, kPart = 192, kWords = kParts * kPart;

struct Model {
    std::vector<Storage> buffers;
    std::vector<std::vector<uint32_t>> words;
    struct Sum {
        uint32_t a, b, out;                // buffers
        uint32_t at_a, at_b, at_out, size; // words
    };
    std::vector<Sum> program;
};

kpx_array view(const Storage &buffer, uint32_t start, uint32_t size) {
    kpx_array array = words_of(buffer, size, KPX_READ);
    array.offset = start;
    return array;
}

Model random_model(const Device &device, const Stream &stream, Random &random) {
    Model model;
    const uint32_t buffers = 8 + random.below(16);
    for (uint32_t i = 0; i < buffers; i++) {
        model.buffers.push_back(new_storage(device, kWords * 4));
        model.words.emplace_back(kWords);
        for (uint32_t &word : model.words.back()) {
            word = random.next();
        }
        upload(stream, model.buffers[i], model.words[i]);
    }
    const uint32_t sums = 1 + random.below(40);
    for (uint32_t i = 0; i < sums; i++) {
        const bool whole = random.below(6) != 0;
        const auto start = [&] { return whole ? 0 : random.below(kParts) * kPart; };
        // Often from the buffer written last to the next one: many short lifetimes.
        const auto recent = [&] { return random.below(3) == 0 ? random.below(buffers) : (i + buffers - 1) % buffers; };
        const uint32_t out = random.below(4) == 0 ? random.below(buffers) : i % buffers;
        model.program.push_back({recent(), recent(), out, start(), start(), start(), whole ? kWords : kPart});
    }
    return model;
}

void append(const Stream &stream, const Model &model) {
    kpx_error err{};
    const uint32_t kind = 0; // addition
    for (const Model::Sum &sum : model.program) {
        REQUIRE_OK(
            append_op(stream, "binary",
                      {view(model.buffers[sum.a], sum.at_a, sum.size), view(model.buffers[sum.b], sum.at_b, sum.size),
                       view(model.buffers[sum.out], sum.at_out, sum.size)},
                      &kind, sizeof kind, &err));
    }
}

void run(Model &model) {
    for (const Model::Sum &sum : model.program) {
        for (uint32_t i = 0; i < sum.size; i++) {
            model.words[sum.out][sum.at_out + i] = model.words[sum.a][sum.at_a + i] + model.words[sum.b][sum.at_b + i];
        }
    }
}

} // namespace

TEST(random_regions_match_a_model) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Random random{2024};
    uint64_t planned = 0, removed = 0;
    for (int round = 0; round < 60; round++) {
        Model model = random_model(device, stream, random);
        begin_capture(stream);
        append(stream, model);
        for (Storage &buffer : model.buffers) {
            if (random.below(4) != 0) {
                buffer.reset();
            }
        }
        Region region = end_capture(stream);
        const kpx_region_stats stats = stats_of(region);
        planned += stats.transient_bytes < stats.transient_bytes_unplanned;
        removed += stats.fused_ops < stats.ops;
        for (uint32_t times : {1, 3, 2}) {
            replay(stream, region, times);
            for (uint32_t i = 0; i < times; i++) {
                run(model);
            }
            for (size_t i = 0; i < model.buffers.size(); i++) {
                CHECK(!model.buffers[i] || download(stream, model.buffers[i], kWords) == model.words[i]);
            }
        }
    }

    CHECK(planned > 5 && removed > 5); // otherwise this tests little
}
