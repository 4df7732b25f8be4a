// Which kernels attention over pages of 8-bit codes takes, and how it and its ranges are launched.
#include <cstring>

#include "ops/gen_ops.hpp"
#include "recorded_lowering.hpp"
#include "test.hpp"

using kpx::Array;

namespace {

struct Shape {
    int64_t rows = 1, heads = 32, key_heads = 8, d = 128, page = 64, pages_of_sequence = 128;
};

struct Operands {
    Array q, k, pages, table, numbers;
};

Operands operands(const Shape &s, uint32_t dtype) {
    const int64_t row = dtype == DT_UINT8 ? s.d + s.d / 8 : s.d;
    return {RecordedLowering::array(DT_FLOAT32, {s.rows, s.heads, s.d}),
            RecordedLowering::array(DT_FLOAT32, {s.rows, s.key_heads, s.d}),
            RecordedLowering::array(dtype, {300, s.key_heads, s.page, row}),
            RecordedLowering::array(DT_INT32, {2, s.pages_of_sequence}), RecordedLowering::array(DT_INT32, {s.rows})};
}

RecordedDispatch attention(RecordedLowering &lowering, const Shape &s, uint32_t dtype = DT_UINT8) {
    const Operands o = operands(s, dtype);
    const Array arrays[] = {o.q, o.pages, o.pages, o.table, o.numbers, o.numbers, o.q};
    kpx::lower_paged_sdpa(lowering, kpx::PagedSDPACall(arrays, 7, kpx::PagedSDPAOp{1, 0}));
    return lowering.dispatches.back();
}

// What a token alone takes; no kernel if it takes several.
RecordedDispatch step_of(RecordedLowering &lowering, const Shape &s, uint32_t dtype = DT_UINT8) {
    const Operands o = operands(s, dtype);
    kpx::PagedStepOp op{};
    op.heads.dims = uint32_t(s.d);
    op.heads.base = 1e6;
    op.heads.rope_scale = op.scale = 1;
    const Array arrays[] = {o.q,       o.k,     o.k,     {},      {},        o.numbers, {},
                            o.numbers, o.pages, o.pages, o.table, o.numbers, o.numbers, o.q};
    try {
        kpx::lower_paged_step(lowering, kpx::PagedStepCall(arrays, 14, op));
    } catch (const kpx::Error &) {
        return {};
    }
    return lowering.dispatches.back();
}

std::string step(const Shape &s, bool fragments = true) {
    RecordedLowering lowering;
    lowering.traits.fragments = fragments;
    return step_of(lowering, s).kernel;
}

// Which of a kernel's constants is KEYS.
uint32_t keys_of(const RecordedDispatch &d) {
    using namespace kpx::spec;
    for (const auto &[kernel, at] : {std::pair(paged_sdpa::kKernel, 12), std::pair(paged_sdpa_fragments::kKernel, 6),
                                     std::pair(paged_step::kKernel, 11), std::pair(paged_step_fragments::kKernel, 7)}) {
        if (d.kernel == std::string(kernel)) {
            return d.spec[at];
        }
    }
    return 0;
}

} // namespace

TEST(pages_of_codes_take_matrices_made_in_registers) {
    RecordedLowering lowering;
    const RecordedDispatch made = attention(lowering, {});
    CHECK(made.kernel == kpx::spec::paged_sdpa_fragments::kKernel);
    CHECK(made.spec[0] == 256);
    CHECK(made.grid.x * made.grid.y == 8 &&
          made.grid.z == 16); // four query heads to a workgroup, 8,192 tokens in 16 ranges
    CHECK(attention(lowering, {.heads = 24}).grid.x == 24); // three share a key head: one to a workgroup
    CHECK(attention(lowering, {.rows = 3, .heads = 64}).grid.x == 3 * 16);
    for (const int64_t heads : {8, 16, 32}) {
        CHECK(step({.heads = heads}) == kpx::spec::paged_step_fragments::kKernel);
        CHECK(attention(lowering, {.heads = heads}).spec[4] == heads / 8);
    }
    CHECK(step({.rows = 2, .pages_of_sequence = 4}) == kpx::spec::paged_step_fragments::kKernel);
}

TEST(a_row_of_a_session_has_more_ranges_of_keys) {
    RecordedLowering lowering;
    const auto divided = [](const RecordedDispatch &d, uint32_t keys, uint32_t ranges) {
        return keys_of(d) == keys && d.grid.z == ranges;
    };
    for (const uint32_t dtype : {DT_UINT8, DT_BFLOAT16, DT_FLOAT32}) {
        const Shape session{.heads = 16, .page = 1024, .pages_of_sequence = 1};
        CHECK(divided(attention(lowering, session, dtype), 64, 16));
        CHECK(divided(step_of(lowering, session, dtype), 64, 16));
        Shape other = session;
        other.page = 48; // one range
        CHECK(attention(lowering, other, dtype).grid.z == 1);
        other.page = 64, other.pages_of_sequence = 16; // an engine
        CHECK(divided(attention(lowering, other, dtype), 256, 4));
        CHECK(divided(step_of(lowering, other, dtype), 256, 4));
        other = session, other.rows = 3; // a prompt
        CHECK(divided(attention(lowering, other, dtype), 256, 4));
    }
    // With floats, a workgroup has two of four query heads of a key head, but all of five, which take longer to
    // combine.
    Shape wide{.heads = 32, .page = 1024, .pages_of_sequence = 1};
    CHECK(divided(attention(lowering, wide), 64, 16) && divided(step_of(lowering, wide), 64, 16));
    CHECK(divided(attention(lowering, wide, DT_BFLOAT16), 64, 16));
    wide.heads = 40;
    CHECK(divided(attention(lowering, wide, DT_BFLOAT16), 256, 4));
}

// Parts of all rows, ranges and heads would take 4 GB.
TEST(many_rows_with_ranges_take_turns) {
    for (const uint32_t dtype : {DT_UINT8, DT_BFLOAT16}) {
        RecordedLowering lowering;
        lowering.traits.max_shared_bytes = 32768; // too little for tiles of rows
        Shape many{.rows = 8192, .heads = 64, .d = 128, .pages_of_sequence = 64};
        attention(lowering, many, dtype);
        CHECK(lowering.scratch_bytes <= 256 << 20);
        RecordedLowering small; // devices need not allow larger buffers than this
        small.traits.max_shared_bytes = 32768;
        small.traits.max_tensor_bytes = 128 << 20;
        attention(small, many, dtype);
        CHECK(small.scratch_bytes <= small.traits.max_tensor_bytes);
        uint32_t workgroups = 0;
        for (const RecordedDispatch &d : lowering.dispatches) {
            workgroups += d.grid.x * d.grid.y;
        }
        RecordedLowering one;
        one.traits.max_shared_bytes = 32768;
        many.rows = 1;
        const RecordedDispatch alone = attention(one, many, dtype);
        CHECK(lowering.dispatches.size() == 17 && workgroups == 8192 * alone.grid.x);
        CHECK(lowering.dispatches.back().spec == alone.spec && lowering.dispatches.back().grid.z == alone.grid.z);
    }
}

TEST(other_pages_of_codes_do_not) {
    const std::string plain = kpx::spec::paged_sdpa::kKernel;
    RecordedLowering lowering;
    CHECK(attention(lowering, {}, DT_BFLOAT16).kernel == plain);
    CHECK(attention(lowering, {.d = 96}).kernel == plain);
    CHECK(attention(lowering, {.page = 24}).kernel == plain);
    CHECK(step({.d = 96}).empty() && step({.page = 24}).empty());
    CHECK(step({.heads = 64}).empty()); // two workgroups of a key head
    CHECK(step({}, false).empty());
    Array far = operands({}, DT_UINT8).pages, loose = far, gaps = far;
    far.offset = 8;
    loose.strides[0] += 8;
    gaps.strides[2] += 16;
    for (const Array &pages : {far, loose, gaps}) {
        const Operands o = operands({}, DT_UINT8);
        const Array arrays[] = {o.q, o.pages, pages, o.table, o.numbers, o.numbers, o.q};
        kpx::lower_paged_sdpa(lowering, kpx::PagedSDPACall(arrays, 7, kpx::PagedSDPAOp{1, 0}));
        CHECK(lowering.dispatches.back().kernel == plain);
    }
    lowering.traits.max_shared_bytes = 24576;
    CHECK(attention(lowering, {}).kernel == plain);
    CHECK(attention(lowering, {.d = 64}).kernel == kpx::spec::paged_sdpa_fragments::kKernel);
    lowering.traits.fragments = false;
    CHECK(attention(lowering, {.d = 64}).kernel == plain);
}

TEST(keys_of_no_elements_are_not_loaded_in_quads) {
    RecordedLowering lowering;
    const Array q = RecordedLowering::array(DT_FLOAT32, {2, 2, 0}),
                out = RecordedLowering::array(DT_FLOAT32, {2, 2, 8}),
                keys = RecordedLowering::array(DT_FLOAT32, {3, 1, 4, 0}),
                values = RecordedLowering::array(DT_FLOAT32, {3, 1, 4, 8}),
                table = RecordedLowering::array(DT_INT32, {1, 2}), numbers = RecordedLowering::array(DT_INT32, {2});
    const Array arrays[] = {q, keys, values, table, numbers, numbers, out};
    kpx::lower_paged_sdpa(lowering, kpx::PagedSDPACall(arrays, 7, kpx::PagedSDPAOp{1, 0}));
    kpx::spec::paged_sdpa constants;
    std::memcpy(&constants, lowering.dispatches.back().spec.data(), sizeof constants);
    CHECK(constants.k_vector == 0 && constants.v_vector != 0);
}
