// Passes over regions, and none over eager windows, tested with a pass of its own:
// SiLU and a product become silu_mul.
#include <cstdlib>
#include <cstring>

#include "fusion/passes.hpp"
#include "test.hpp"
#include "types.h"

namespace {

constexpr int64_t kN = 512;

void pass_silu_product(kpx::Graph &graph) {
    using kpx::Graph;
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const auto product = graph.node(id).as<kpx::BinaryCall>();
        if (!product || product->op().kind != BINARY_MUL) {
            continue;
        }
        const auto made = graph.producer(id, product->a());
        const auto silu = made ? graph.node(made->node).as<kpx::UnaryCall>() : std::nullopt;
        if (!silu || silu->op().kind != UNARY_SILU || !kpx::same_view(silu->out(), product->a())) {
            continue;
        }
        using Call = kpx::SiLUMulCall;
        kpx::NodeOf<Call> fused({});
        fused.set(Call::kGate, silu->x()).set(Call::kUp, product->b()).set(Call::kOut, product->out());
        graph.replace({made->node, id}, fused.node);
    }
}

// Adds the pass for a scope.
struct WithPass {
    WithPass() { kpx::all_passes().push_back({"silu_product", pass_silu_product}); }
    ~WithPass() { kpx::all_passes().pop_back(); }
};

kpx_array floats(const Storage &buffer) {
    kpx_array array = words_of(buffer, kN, KPX_READ);
    array.dtype = DT_FLOAT32;
    return array;
}

std::vector<uint32_t> ramp() {
    std::vector<uint32_t> bits;
    for (int64_t i = 0; i < kN; i++) {
        const float value = float(i - kN / 2) / 64;
        bits.emplace_back();
        memcpy(&bits.back(), &value, 4);
    }
    return bits;
}

// y = silu(x) * x, twice over; the intermediate is closed unless kept is given.
void append_products(const Device &device, const Stream &stream, const Storage &x, const Storage &y,
                     Storage *kept = nullptr) {
    kpx_error err{};
    for (int i = 0; i < 2; i++) {
        const kpx::UnaryOp silu{UNARY_SILU};
        const kpx::BinaryOp mul{BINARY_MUL};
        Storage t = new_storage(device, kN * 4);
        REQUIRE_OK(append_op(stream, "unary", {floats(x), floats(t)}, &silu, sizeof silu, &err));
        REQUIRE_OK(append_op(stream, "binary", {floats(t), floats(x), floats(y)}, &mul, sizeof mul, &err));
        if (kept != nullptr) {
            *kept = std::move(t);
        }
    }
}

} // namespace

// Where a window ends depends on what else flushes, so it must not change a bit.
TEST(eager_windows_run_as_they_were_appended) {
    const WithPass pass;
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, kN * 4), y = new_storage(device, kN * 4);
    upload(stream, x, ramp());
    append_products(device, stream, x, y);
    flush(stream);
    CHECK(stats_of(stream).dispatches == 1 + 4); // upload, products
}

TEST(passes_run_over_regions) {
    const WithPass pass;
    std::vector<uint32_t> results[2];
    for (bool off : {false, true}) {
        Device device = open_without_passes(off ? "all" : "");
        Stream stream = new_stream(device);
        Storage x = new_storage(device, kN * 4), y = new_storage(device, kN * 4);
        upload(stream, x, ramp());
        begin_capture(stream);
        append_products(device, stream, x, y);
        Region region = end_capture(stream);
        const kpx_region_stats stats = stats_of(region);
        CHECK(stats.ops == 4 && stats.fused_ops == (off ? 4 : 2) && stats.dispatches == stats.fused_ops);
        CHECK((stats.transient_bytes == 0) == !off);
        const char *fused =
            "{\"name\":\"silu_mul\",\"pass\":\"silu_product\",\"fused_from\":[\"unary\",\"binary\"],\"operands\":[";
        CHECK((describe(region).find(fused) == std::string::npos) == off);
        replay(stream, region, 3);
        results[off] = download(stream, y, kN);
    }
    CHECK(results[0] == results[1]);
}

TEST(regions_leave_out_what_nobody_sees) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage x = new_storage(device, kN * 4), y = new_storage(device, kN * 4);
    upload(stream, x, ramp());
    const kpx::UnaryOp neg{UNARY_NEG};
    for (bool eager : {true, false}) {
        if (!eager) {
            begin_capture(stream);
        }
        Storage t = new_storage(device, kN * 4), u = new_storage(device, kN * 4);
        REQUIRE_OK(append_op(stream, "unary", {floats(x), floats(t)}, &neg, sizeof neg, &err));
        REQUIRE_OK(append_op(stream, "unary", {floats(t), floats(y)}, &neg, sizeof neg, &err));
        REQUIRE_OK(append_op(stream, "unary", {floats(t), floats(u)}, &neg, sizeof neg, &err));
        if (eager) {
            CHECK(download(stream, y, kN) == ramp());
            CHECK(stats_of(stream).dispatches == 5); // upload, all three, download
        }
    }
    Region region = end_capture(stream);
    CHECK(stats_of(region).ops == 3 && stats_of(region).fused_ops == 2);
    replay(stream, region);
    CHECK(download(stream, y, kN) == ramp());
}
