#include "ops/paged_sdpa_matrix.hpp"

#include <algorithm>

#include "ops/lowering_util.hpp"

namespace kpx {

namespace {

constexpr int64_t kAloneRows = 64;        // up to which no row's result depends on how many there are
constexpr int64_t kPagedTileHead = 128;   // most elements of a head in paged_sdpa_coopmat2,
constexpr uint32_t kTileKeys = 32;        // its keys at a time,
constexpr uint32_t kPagedTileRows = 128;  // and rows of its tile: of 8 subgroups
constexpr int64_t kTurnRows = 4096;       // rows whose parts are in memory at the same time
constexpr uint32_t kCombineThreads = 256; // of paged_sdpa_combine

constexpr int64_t kBatchKeys = 16;     // BATCH of paged_fragments.glsl
constexpr uint32_t kFragmentSlots = 8; // of its workgroups: with more, other workgroups find no room beside them
constexpr uint32_t kFragmentHeads = 4; // the most query heads of a workgroup

// Whether tiles of rows that share the loads of keys serve better: some sequences have several rows then.
bool has_shared_keys(const PagedSDPAParams &p) {
    return p.rows > kAloneRows && p.rows >= 2 * p.sequences && p.d > 0;
}

// Whether the device can run paged_sdpa_coopmat2.
bool has_tiles(const Lowering &lowering, const PagedSDPAParams &p) {
    const DeviceTraits &device = lowering.device();
    const auto pitch = [](uint32_t d) { return divide_up(d, 16) * 2 + 1; };
    const uint32_t quads = std::max((pitch(p.d) + pitch(p.dv)) * 2 * kTileKeys, pitch(p.d) * kPagedTileRows);
    return p.group <= kPagedTileRows && p.d <= kPagedTileHead && p.dv <= kPagedTileHead && device.subgroup_size == 32 &&
           2 * kPagedTileRows <= device.max_workgroup_invocations && quads * 16 + 2048 <= device.max_shared_bytes &&
           lowering.has_kernel(spec::paged_sdpa_coopmat2::kKernel) &&
           lowering.has_kernel(spec::paged_sdpa_combine::kKernel);
}

// A code times its scale has as many bits as a float32.
uint32_t parts_of(uint32_t dtype) {
    return dtype == DT_FLOAT32 || dtype == DT_UINT8 ? 2 : 1;
}

// How many ranges of keys there are up to the capacity.
uint32_t ranges_of(uint32_t capacity) {
    uint32_t ranges = 1;
    while (ranges < PAGED_RANGES && PAGED_RANGE_BEGIN(ranges) < capacity)
        ranges++;
    return ranges;
}

void dispatch_parts(Lowering &lowering, const PagedSDPACall &call, const Array &parts, const PagedSDPAParams &p) {
    const Array &q = call.q(), &k = call.keys(), &v = call.values();
    uint32_t tokens = 1; // of a tile
    while (tokens * 2 * p.group <= kPagedTileRows)
        tokens *= 2;
    // Tiles begin at multiples of tokens and where the sequence changes, which happens once for each, as a rule.
    const int64_t tiles = std::min<int64_t>(p.rows, int64_t(divide_up(p.rows, tokens)) + p.sequences);
    const uint32_t most = lowering.device().max_workgroup_count[1];
    lowering.dispatch(spec::paged_sdpa_coopmat2{.threads = kPagedTileRows * 2,
                                                .q_dtype = q.dtype,
                                                .k_dtype = k.dtype,
                                                .v_dtype = v.dtype,
                                                .k_vector = quads_in_rows(k),
                                                .v_vector = quads_in_rows(v),
                                                .q_parts = parts_of(q.dtype),
                                                .k_parts = parts_of(k.dtype),
                                                .v_parts = parts_of(v.dtype),
                                                .w_parts = parts_of(q.dtype),
                                                .k_steps = divide_up(p.d, 16),
                                                .v_steps = divide_up(p.dv, 16),
                                                .waves = kPagedTileRows / 16,
                                                .keys = kTileKeys,
                                                .tokens = tokens,
                                                .q_vector = quads_in_rows(q)},
                      {.q = {q, KPX_READ},
                       .k = {k, KPX_READ},
                       .v = {v, KPX_READ},
                       .table = {call.table(), KPX_READ},
                       .sequences = {call.sequences(), KPX_READ},
                       .lengths = {call.lengths(), KPX_READ},
                       .parts = {parts, KPX_WRITE}},
                      p, {p.key_heads, uint32_t(std::min<int64_t>(tiles, most)), ranges_of(p.capacity)});
}

void dispatch_combine(Lowering &lowering, const PagedSDPACall &call, const Array &parts, const Array &out,
                      kpx_access writes, const PagedSDPAParams &p) {
    const Array &q = call.q(), &k = call.keys(), &v = call.values();
    const uint32_t lanes = lowering.device().subgroup_size;
    const int64_t outputs = int64_t(p.rows) * p.key_heads * p.group;
    lowering.dispatch(spec::paged_sdpa_combine{.threads = kCombineThreads,
                                               .q_dtype = q.dtype,
                                               .k_dtype = k.dtype,
                                               .v_dtype = v.dtype,
                                               .y_dtype = out.dtype,
                                               .v_turns = divide_up(p.dv, lanes * 4),
                                               .ranges = ranges_of(p.capacity)},
                      {.q = {q, KPX_READ},
                       .k = {k, KPX_READ},
                       .v = {v, KPX_READ},
                       .table = {call.table(), KPX_READ},
                       .sequences = {call.sequences(), KPX_READ},
                       .lengths = {call.lengths(), KPX_READ},
                       .y = {out, writes},
                       .parts = {parts, KPX_READ}},
                      p, grid_1d(lowering.device(), divide_up(outputs, kCombineThreads / lanes)));
}

// Whether paged_fragments.glsl can load heads in pages: those of kBatchKeys keys lie in one piece, in quads.
bool are_fragment_pages(const Array &pages, uint32_t d) {
    return pages.dtype == DT_UINT8 && (d == 64 || d == 128) && pages.dim(2) % kBatchKeys == 0 &&
           pages.stride(2) == pages.dim(3) && aligned(pages.offset, pages.shape.data(), pages.strides.data(), 2, 16);
}

} // namespace

bool takes_paged_tiles(const Lowering &lowering, const PagedSDPAParams &p) {
    return has_shared_keys(p) && has_tiles(lowering, p);
}

void dispatch_paged_tiles(Lowering &lowering, const PagedSDPACall &call, const Array &out, const PagedSDPAParams &all) {
    const int64_t heads = all.key_heads * all.group, turn = std::min<int64_t>(all.rows, kTurnRows);
    const Array parts = lowering.scratch(
        DT_FLOAT32, {turn * heads * ranges_of(all.capacity), divide_up(all.dv, 16) * 16 + PAGED_PART_STATS});
    take_turns(all, kTurnRows, [&](const PagedSDPAParams &p, kpx_access writes) {
        dispatch_parts(lowering, call, parts, p);
        dispatch_combine(lowering, call, parts, out, writes, p);
    });
}

bool takes_paged_fragments(const Lowering &lowering, const PagedSDPACall &call) {
    const DeviceTraits &device = lowering.device();
    const uint32_t d = uint32_t(call.q().dim(2));
    const int64_t shared = kFragmentSlots * kBatchKeys * cache_row(DT_UINT8, d) + d * 48 + 3072;
    return device.fragments && lowering.has_kernel(spec::paged_sdpa_fragments::kKernel) &&
           lowering.has_kernel(spec::paged_step_fragments::kKernel) &&
           32 * kFragmentSlots <= device.max_workgroup_invocations && shared <= device.max_shared_bytes &&
           call.out().dim(2) == d && are_fragment_pages(call.keys(), d) && are_fragment_pages(call.values(), d);
}

PagedFragments plan_paged_fragments(Lowering &lowering, const PagedSDPACall &call, bool turns) {
    PagedFragments plan{};
    plan.threads = 32 * kFragmentSlots;
    plan.heads = kFragmentHeads;
    while (call.q().dim(1) / call.keys().dim(1) % plan.heads != 0)
        plan.heads /= 2;
    static_cast<PagedRanges &>(plan) = plan_paged_ranges(lowering, call, plan.heads, true, turns, 0);
    return plan;
}

void dispatch_paged_fragments(Lowering &lowering, const PagedSDPACall &call, const Array &out,
                              const PagedSDPAParams &all) {
    const PagedFragments plan = plan_paged_fragments(lowering, call, true);
    take_turns(all, plan.rows, [&](const PagedSDPAParams &p, kpx_access writes) {
        Grid grid = grid_1d(lowering.device(), int64_t(p.rows) * p.key_heads * p.group / plan.heads);
        grid.z = plan.splits;
        lowering.dispatch(spec::paged_sdpa_fragments{.threads = plan.threads,
                                                     .q_dtype = call.q().dtype,
                                                     .y_dtype = out.dtype,
                                                     .groups = p.d / CACHE_GROUP,
                                                     .heads = plan.heads,
                                                     .page = p.page,
                                                     .keys = plan.keys,
                                                     .lanes = 32},
                          paged_row_bindings<spec::paged_sdpa_fragments::Bindings>(call, out, writes, plan), p, grid);
    });
}

} // namespace kpx
