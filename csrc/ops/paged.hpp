// What the lowerings of attention over pages, and of the ops that prepare it, share.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "ops/gen_ops.hpp"
#include "ops/rotary.hpp"

namespace kpx {

// Whether pages may have this type: floats, or uint8 with scales (CACHE_GROUP in ops.def).
bool is_cache_dtype(uint32_t dtype);
// How many elements long the last axis of pages is for heads of d elements; -1 if they cannot have such heads.
int64_t cache_row(uint32_t dtype, int64_t d);
// Elements of a head in pages; -1 if their last axis is of no such length.
int64_t cache_head(const Array &pages);
// Throws KPX_INVALID if they are pages of codes and not in words, which Go checks.
void check_cache_words(const Array &pages);

// New tokens' heads whose product exists only as sums of parts, which are still to be added up (heads_of_sums.glsl). q,
// k and v of a call then say where they would begin among the sums of the first part, in elements of these, and which
// type they would have.
struct HeadSums {
    uint32_t cols = 0; // of the product's x. 0: the heads are there
    uint32_t lanes = 32, part = 16, side = 8;
    float eps = 0; // of x's norm
    Array sums, squares;
};

// Its members in the list of a kernel's constants.
#define HEAD_SUMS_CONSTANTS(of)                                                                                        \
    .x_cols = (of).cols, .x_lanes = (of).lanes, .x_part = (of).part, .x_side = (of).side,                              \
    .x_eps = std::bit_cast<uint32_t>((of).eps)

// What a kernel binds as q, k and v: the heads or, in their places, the sums and squares.
template <typename Call> std::array<Binding, 3> bound_heads(const Call &s, const HeadSums &of, bool overlaps) {
    if (of.cols != 0) {
        return {Binding{of.sums, KPX_READ}, Binding{of.squares, KPX_READ}, Binding{of.sums, KPX_READ}};
    }
    return {Binding{s.q(), KPX_READ, overlaps}, Binding{s.k(), KPX_READ, overlaps}, Binding{s.v(), KPX_READ, overlaps}};
}

// What lower_paged_heads and lower_paged_step dispatch.
void dispatch_paged_heads(Lowering &lowering, const PagedHeadsCall &s, const HeadSums &of);
void dispatch_paged_step(Lowering &lowering, const PagedStepCall &s, const HeadSums &of);

// Throws if the kernel paged_heads cannot do it, or the call is wrong.
void check_paged_heads(const Lowering &lowering, const PagedHeadsCall &s);
// The STEP_* flags of its kernel.
uint32_t paged_heads_flags(const PagedHeadsCall &s);

// Fills what the parameters of paged_heads and paged_step share.
template <typename Params, typename Call> void fill_heads(Params &p, const Call &s, const PagedHeadsOp &op) {
    p.q_offset = uint32_t(s.q().offset);
    p.k_offset = uint32_t(s.k().offset);
    p.v_offset = uint32_t(s.v().offset);
    p.q_gain_offset = uint32_t(s.q_gain().offset);
    p.k_gain_offset = uint32_t(s.k_gain().offset);
    p.freqs_offset = uint32_t(s.freqs().offset);
    p.slot_offset = uint32_t(s.slots().offset);
    p.keys_offset = uint32_t(s.keys().offset);
    p.values_offset = uint32_t(s.values().offset);
    p.out_offset = uint32_t(s.out().offset);
    p.position = s.position() ? int32_t(s.position().offset) : op.position;
    p.rope_scale = op.rope_scale;
    rotary_step(op.base, op.dims, p.step_high, p.step_low);
    p.q_eps = op.q_eps;
    p.k_eps = op.k_eps;
}

// The ranges of a row's keys that workgroups share, and what they need to put their results together.
struct PagedRanges {
    uint32_t keys; // of a range
    uint32_t splits;
    int64_t rows;          // whose parts are in memory at the same time
    Array parts, arrivals; // if there are several ranges
    kpx_access part_access() const { return splits > 1 ? KPX_WRITE : KPX_READ; }
    kpx_access arrival_access() const { return splits > 1 ? KPX_READ_WRITE : KPX_READ; }
};

// How a row's keys are divided. It depends only on shapes and the device, not on how many rows there are (except for a
// row of a session), nor on whether paged_sdpa or paged_step adds them up. So a row's sums do not depend on these
// either.
struct PagedPlan : PagedRanges {
    uint32_t lanes, slots; // of a workgroup
    uint32_t k_quads, v_quads;
    uint32_t heads; // of a workgroup
    uint32_t batch; // keys that a slot loads at once
    bool aligned;   // a batch never spans two pages
};

// Throws KPX_INVALID for a wrong call.
void check_paged(const PagedSDPACall &call);
// The most tokens that a sequence of the table can have.
int64_t paged_capacity(const PagedSDPACall &call);
// The ranges for workgroups of that many query heads, each of a chunk of the values. quick: whether such a workgroup
// combines ranges quickly enough for more of them, if a row has the device for itself. turns: whether rows take turns
// where the parts of all would take too much memory. rounds: of the kernel's loops if a workgroup has all keys of the
// capacity (rounds.hpp). The capacity must be at least 1. Throws KPX_UNSUPPORTED if ranges are too long for a CPU
// driver.
PagedRanges plan_paged_ranges(Lowering &lowering, const PagedSDPACall &call, uint32_t heads, bool quick, bool turns,
                              int64_t rounds);
PagedPlan plan_paged(Lowering &lowering, const PagedSDPACall &call, bool turns);

// Calls dispatch(p, writes) for that many rows at a time, until all have been dispatched; writes is how each writes
// the results.
template <typename Dispatch> void take_turns(const PagedSDPAParams &all, int64_t rows, Dispatch dispatch) {
    const kpx_access writes = all.rows > rows ? KPX_READ_WRITE : KPX_WRITE;
    for (int64_t first = 0; first < all.rows; first += rows) {
        PagedSDPAParams p = all;
        p.rows = uint32_t(std::min<int64_t>(all.rows - first, rows));
        p.q_offset += uint32_t(first * p.q_strides[0]);
        p.sequence_offset += uint32_t(first * p.sequence_stride);
        p.length_offset += uint32_t(first * p.length_stride);
        p.out_offset += uint32_t(first * p.key_heads * p.group * p.dv);
        dispatch(p, writes);
    }
}

// The operands of paged_sdpa and paged_sdpa_fragments.
template <typename Bindings>
Bindings paged_row_bindings(const PagedSDPACall &call, const Array &out, kpx_access writes, const PagedRanges &ranges) {
    return {.q = {call.q(), KPX_READ},
            .k = {call.keys(), KPX_READ},
            .v = {call.values(), KPX_READ},
            .table = {call.table(), KPX_READ},
            .sequences = {call.sequences(), KPX_READ},
            .lengths = {call.lengths(), KPX_READ},
            .y = {out, writes},
            .parts = {ranges.parts, ranges.part_access()},
            .arrivals = {ranges.arrivals, ranges.arrival_access()}};
}

} // namespace kpx
