// Prepares new tokens, which do not see each other, for attention over pages and attends, in one dispatch. It gives the
// same bits as paged_heads and paged_sdpa, so that a row's result is the same alone and among others; the exception is
// a row of a session (keys_per_split in paged_sdpa.cpp).
#include "ops/lowering_util.hpp"
#include "ops/paged.hpp"
#include "ops/paged_sdpa_matrix.hpp"

namespace kpx {

namespace {

constexpr int64_t kMostStepElements = 256; // of a head: a workgroup has all of its values

PagedStepParams step_params_of(const PagedStepCall &s) {
    PagedStepParams p{};
    fill_heads(p, s, s.op().heads);
    p.page = uint32_t(s.keys().dim(2));
    p.pages = uint32_t(s.keys().dim(0));
    p.sequences = uint32_t(s.table().dim(0));
    p.q_stride = uint32_t(s.q().stride(0));
    p.k_stride = uint32_t(s.k().stride(0));
    p.v_stride = uint32_t(s.v().stride(0));
    fill(p.pages_strides, 3, s.keys().strides, 3, 0);
    fill(p.table_strides, 2, s.table().strides, 2, 0);
    p.table_offset = uint32_t(s.table().offset);
    p.sequence_offset = uint32_t(s.sequences().offset);
    p.length_offset = uint32_t(s.lengths().offset);
    p.scale = s.op().scale;
    return p;
}

void check_step(const Lowering &lowering, const PagedStepCall &s, const PagedHeadsCall &heads,
                const PagedSDPACall &sdpa) {
    const DeviceTraits &device = lowering.device();
    if (device.is_cpu && !device.as_gpu) {
        unsupported("on a CPU driver, separate ops are faster: they need fewer barriers inside a workgroup");
    }
    if (device.max_shared_bytes < kUsualSharedBytes) {
        unsupported("{} bytes of shared memory", device.max_shared_bytes);
    }
    check_paged_heads(lowering, heads);
    check_paged(sdpa);
    check_operands({&s.table(), &s.sequences(), &s.lengths(), &s.out()});
    const Array &keys = s.keys(), &values = s.values();
    const int64_t d = s.q().dim(2);
    if (d > kMostStepElements || !s.out().contiguous() || paged_capacity(sdpa) == 0 || keys.dim(0) == 0 ||
        s.q().dim(0) > device.max_workgroup_count[1]) {
        unsupported("{} rows of heads of {} elements, or no pages", s.q().dim(0), d);
    }
    for (const Array *x : {&s.q(), &s.k(), &s.v()}) {
        if (x->dim(1) > 1 && x->stride(1) != d) {
            unsupported("a row's heads do not follow one another");
        }
    }
    for (const Array *x : {&s.sequences(), &s.lengths()}) {
        if (x->dim(0) > 1 && x->stride(0) != 1) {
            unsupported("sequences or lengths do not follow one another");
        }
    }
    if (keys.dtype == DT_UINT8 && !takes_paged_fragments(lowering, sdpa)) {
        // The kernel paged_step rounds some sums of codes differently from paged_sdpa, on NVIDIA's driver.
        unsupported("8-bit pages of {} tokens with heads of {} elements on this device", keys.dim(2), d);
    }
    if (!quads_in_rows(keys) || !quads_in_rows(values) || keys.strides != values.strides) {
        unsupported("keys and values do not have the same layout in quads");
    }
}

// How many workgroups with that many heads share a key head.
uint32_t share_of_key(const PagedStepCall &s, uint32_t heads) {
    return uint32_t(s.q().dim(1) / s.k().dim(1)) / heads;
}

void check_launch(const DeviceTraits &device, const PagedStepCall &s, uint32_t threads, uint32_t heads,
                  uint32_t splits) {
    const int64_t rows = s.q().dim(0), d = s.q().dim(2), groups = s.q().dim(1) / heads;
    if (threads < std::max<int64_t>({32, d / 2, rows})) {
        unsupported("{} rows of heads of {} elements in workgroups of {}", rows, d, threads);
    }
    // Where compute units have several workgroups, preparing the heads in a dispatch of their own is faster.
    if (rows > 1 && rows * groups * splits > device.compute_units && !device.is_cpu) {
        unsupported("{} rows of {} workgroups", rows, groups * splits);
    }
}

// The operands of both kernels.
template <typename Bindings>
Bindings step_bindings(const PagedStepCall &s, const HeadSums &of, const PagedRanges &ranges) {
    const auto or_keys = [&](const Array &x) { return Binding{x ? x : s.keys(), KPX_READ}; };
    const bool overlaps = s.q().dtype == DT_FLOAT32;
    const auto [q, k, v] = bound_heads(s, of, overlaps);
    return {.q = q,
            .k = k,
            .v = v,
            .q_gain = or_keys(s.q_gain()),
            .k_gain = or_keys(s.k_gain()),
            .positions = or_keys(s.position()),
            .freqs = or_keys(s.freqs()),
            .slots = {s.slots(), KPX_READ},
            .keys = {s.keys(), KPX_READ_WRITE},
            .values = {s.values(), KPX_READ_WRITE},
            .table = {s.table(), KPX_READ},
            .sequences = {s.sequences(), KPX_READ},
            .lengths = {s.lengths(), KPX_READ},
            .y = {s.out(), KPX_WRITE, overlaps},
            .parts = {ranges.parts, ranges.part_access()},
            .arrivals = {ranges.arrivals, ranges.arrival_access()}};
}

void dispatch_step(Lowering &lowering, const PagedStepCall &s, const HeadSums &of, const PagedSDPACall &sdpa,
                   uint32_t flags, const PagedStepParams &p) {
    const PagedPlan plan = plan_paged(lowering, sdpa, false);
    const uint32_t rows = uint32_t(s.q().dim(0)), threads = plan.slots * plan.lanes;
    const uint32_t share = share_of_key(s, plan.heads);
    check_launch(lowering.device(), s, threads, plan.heads, plan.splits);
    if (share > 1 && s.keys().dim(2) % 2 != 0) {
        unsupported("pages of {} tokens for {} workgroups of a key head", s.keys().dim(2), share);
    }
    lowering.dispatch(spec::paged_step{.threads = threads,
                                       .q_dtype = s.q().dtype,
                                       .keys_dtype = s.keys().dtype,
                                       .d = uint32_t(s.q().dim(2)),
                                       .dims = s.op().heads.dims,
                                       .flags = flags,
                                       .k_quads = plan.k_quads,
                                       .v_quads = plan.v_quads,
                                       .heads = plan.heads,
                                       .batch = plan.batch,
                                       .aligned = plan.aligned,
                                       .keys = plan.keys,
                                       .lanes = plan.lanes,
                                       .share = share,
                                       HEAD_SUMS_CONSTANTS(of),
                                       .overlap = 0},
                      step_bindings<spec::paged_step::Bindings>(s, of, plan), p,
                      {uint32_t(s.q().dim(1)) / plan.heads, rows, plan.splits});
}

void dispatch_step_fragments(Lowering &lowering, const PagedStepCall &s, const HeadSums &of, const PagedSDPACall &sdpa,
                             uint32_t flags, const PagedStepParams &p) {
    const PagedFragments plan = plan_paged_fragments(lowering, sdpa, false);
    const uint32_t rows = uint32_t(s.q().dim(0)), share = share_of_key(s, plan.heads);
    check_launch(lowering.device(), s, plan.threads, plan.heads, plan.splits);
    if (share > 1) {
        unsupported("8-bit pages for {} workgroups of a key head", share);
    }
    lowering.dispatch(spec::paged_step_fragments{.threads = plan.threads,
                                                 .q_dtype = s.q().dtype,
                                                 .dims = s.op().heads.dims,
                                                 .flags = flags,
                                                 .groups = uint32_t(s.q().dim(2)) / CACHE_GROUP,
                                                 .heads = plan.heads,
                                                 .page = p.page,
                                                 .keys = plan.keys,
                                                 .lanes = 32,
                                                 HEAD_SUMS_CONSTANTS(of),
                                                 .overlap = 0},
                      step_bindings<spec::paged_step_fragments::Bindings>(s, of, plan), p,
                      {uint32_t(s.q().dim(1)) / plan.heads, rows, plan.splits});
}

} // namespace

void dispatch_paged_step(Lowering &lowering, const PagedStepCall &s, const HeadSums &of) {
    const Array heads_operands[] = {s.q(),     s.k(),     s.v(),    s.q_gain(), s.k_gain(), s.position(),
                                    s.freqs(), s.slots(), s.keys(), s.values(), s.out()};
    const PagedHeadsCall heads(heads_operands, uint32_t(std::size(heads_operands)), s.op().heads);
    const Array sdpa_operands[] = {s.q(), s.keys(), s.values(), s.table(), s.sequences(), s.lengths(), s.out()};
    const PagedSDPACall sdpa(sdpa_operands, uint32_t(std::size(sdpa_operands)), PagedSDPAOp{s.op().scale, 1});
    check_step(lowering, s, heads, sdpa);
    PagedStepParams p = step_params_of(s);
    p.capacity = uint32_t(paged_capacity(sdpa));
    const uint32_t flags = paged_heads_flags(heads);
    if (s.keys().dtype == DT_UINT8) {
        dispatch_step_fragments(lowering, s, of, sdpa, flags, p);
    } else {
        dispatch_step(lowering, s, of, sdpa, flags, p);
    }
}

void lower_paged_step(Lowering &lowering, const PagedStepCall &s) {
    dispatch_paged_step(lowering, s, {});
}

} // namespace kpx
