#include <algorithm>

#include "ops/lowering_util.hpp"
#include "ops/paged.hpp"
#include "ops/paged_sdpa_matrix.hpp"
#include "ops/rounds.hpp"

namespace kpx {

namespace {

constexpr int64_t kValuesChunk = 256;       // DV_CHUNK of paged_attention.glsl
constexpr uint32_t kMostHeads = 8;          // query heads of a workgroup
constexpr uint32_t kHeadQuads = 16;         // the most quads of q that a lane holds for all its heads together
constexpr int64_t kLaneQuads = 32;          // the most quads of one head that a lane holds
constexpr uint32_t kMostBatch = 8;          // keys that a slot loads at once,
constexpr uint32_t kCpuBatch = 2;           // of CPU drivers, which have no loads in flight and compile slowly,
constexpr uint32_t kMostScores = 32;        // and their scores, of all heads
constexpr uint32_t kSlots = 8;              // of a workgroup,
constexpr uint32_t kFewSlots = 4;           // with less shared memory than usual,
constexpr uint32_t kManySlots = 16;         // with 8-bit or float16 keys,
constexpr int64_t kFewGroups = 8;           // where a range of a row's keys has at most that many workgroups,
constexpr uint32_t kManyBytes = 48 << 10;   // with that much shared memory
constexpr uint32_t kFewHeads = 2;           // of a workgroup, for more workgroups
constexpr int64_t kKeysPerSplit = 256;      // for which a row has a range: more ranges would not pay for combining
constexpr int64_t kKeysAlone = 64;          // the same for a row that has the device for itself,
constexpr uint32_t kQuickHeads = 2;         // in workgroups of up to that many heads
constexpr int64_t kMostSplits = 16;         // MOST_SPLITS of paged_ranges.glsl
constexpr int64_t kPartBytes = 256 << 20;   // of the parts in memory at the same time,
constexpr int64_t kCpuPartBytes = 16 << 10; // and with CPU drivers, so that tests have several turns of rows

// The number of query heads of a group that share a workgroup: a divisor of the group.
uint32_t heads_together(int64_t group, int64_t quads) {
    const int64_t most = std::min<int64_t>(kMostHeads, std::max<int64_t>(1, kHeadQuads / quads));
    for (int64_t heads = std::min(most, group); heads > 1; heads--) {
        if (group % heads == 0) {
            return uint32_t(heads);
        }
    }
    return 1;
}

// A half or a quarter of the heads, provided that the lanes then add up their scores in the same order, and pairs of
// tokens share a page.
uint32_t fewer_heads(const PagedPlan &plan, int64_t page) {
    const uint32_t scores = plan.heads * plan.batch;
    const bool alike = (scores & (scores - 1)) == 0 && scores <= plan.lanes && page % 2 == 0;
    return alike ? std::min(plan.heads, kFewHeads) : plan.heads;
}

// The slots of a workgroup. If converting keys to floats takes longer than loading them, there are many where few
// workgroups share a range of a row's keys: a compute unit then has one workgroup at a time.
uint32_t slots_of(const Lowering &lowering, const PagedSDPACall &call, const PagedPlan &plan) {
    const DeviceTraits &device = lowering.device();
    const bool costly = call.keys().dtype == DT_UINT8 || call.keys().dtype == DT_FLOAT16;
    // Without subgroups, threads add up their scores in shared memory, which has room for kSlots.
    // The kernel paged_step, if the device has it, must have as many, so that a row has the same bits.
    const auto adds_up_by_subgroups = [&](const char *kernel) { return lowering.runs_variant(kernel, "subgroup"); };
    const bool subgroups =
        adds_up_by_subgroups(spec::paged_sdpa::kKernel) &&
        (!lowering.has_kernel(spec::paged_step::kKernel) || adds_up_by_subgroups(spec::paged_step::kKernel));
    const bool many = costly && call.q().dim(1) / plan.heads <= kFewGroups && subgroups &&
                      (!device.is_cpu || device.as_gpu) && device.max_shared_bytes >= kManyBytes;
    uint32_t slots = many ? kManySlots : device.max_shared_bytes < kUsualSharedBytes ? kFewSlots : kSlots;
    const uint32_t threads = std::min(device.max_workgroup_invocations, 32 * slots);
    while (slots > 1 && slots * plan.lanes > threads) {
        slots /= 2;
    }
    return slots;
}

// The rounds of the loops of a workgroup that has all keys. For each batch of all slots, the lanes of a slot add up
// their scores: by subgroups in as many rounds as their number has bits, and otherwise one score after another.
int64_t paged_rounds(const Lowering &lowering, const PagedSDPACall &call, const PagedPlan &plan) {
    const bool subgroups = lowering.runs_variant(spec::paged_sdpa::kKernel, "subgroup");
    const int64_t sums = subgroups ? std::bit_width(plan.lanes) : int64_t(plan.heads) * plan.batch * (plan.lanes + 1);
    return (paged_capacity(call) / (plan.slots * plan.batch) + 1) * (1 + sums);
}

// The keys for which a row has a range, up to kMostSplits. A session has its sequence in one page, and the row of its
// new token is alone on the device. quick: as for plan_paged_ranges.
int64_t keys_per_split(const PagedSDPACall &call, bool quick) {
    const bool alone = call.q().dim(0) == 1 && call.table().dim(1) == 1;
    return alone && quick ? kKeysAlone : kKeysPerSplit;
}

// The largest number of workgroups that share the keys of a row, each of which has a range. It depends on the capacity,
// since the lengths are known only to the device.
int64_t most_splits(const DeviceTraits &device, int64_t capacity, int64_t keys, int64_t rounds) {
    const int64_t needed = device.is_cpu ? rounds / kMostRounds + 1 : capacity / (1 << 20) + 1;
    check_rounds(device, rounds / kMostSplits);
    if (device.is_cpu && !device.as_gpu) {
        return std::min(kMostSplits, needed);
    }
    return std::min(kMostSplits, std::max(needed, (capacity + keys - 1) / keys));
}

} // namespace

void check_paged(const PagedSDPACall &call) {
    const Array &q = call.q(), &k = call.keys(), &v = call.values(), &out = call.out();
    if (!is_float(q.dtype) || !is_cache_dtype(k.dtype) || v.dtype != k.dtype || out.dtype != q.dtype)
        invalid("dtypes {}, {}, {} and {}", dtype_name(q.dtype), dtype_name(k.dtype), dtype_name(v.dtype),
                dtype_name(out.dtype));
    if (q.rank != 3 || k.rank != 4 || v.rank != 4 || out.rank != 3 || cache_head(k) != q.dim(2) ||
        v.dim(0) != k.dim(0) || v.dim(1) != k.dim(1) || v.dim(2) != k.dim(2) || out.dim(0) != q.dim(0) ||
        out.dim(1) != q.dim(1) || out.dim(2) != cache_head(v))
        invalid("q, keys, values and out do not match in shape");
    check_cache_words(k);
    check_cache_words(v);
    if (k.dim(1) == 0 || q.dim(1) % k.dim(1) != 0)
        invalid("{} query heads for {} key heads", q.dim(1), k.dim(1));
    for (const Array *x : {&call.table(), &call.sequences(), &call.lengths()}) {
        if (x->dtype != DT_INT32)
            invalid("a table, sequences or lengths of {}", dtype_name(x->dtype));
    }
    if (call.table().rank != 2 || call.sequences().rank != 1 || call.lengths().rank != 1 ||
        call.sequences().dim(0) != q.dim(0) || call.lengths().dim(0) != q.dim(0))
        invalid("the table is not [S, M], or sequences and lengths are not [R]");
}

int64_t paged_capacity(const PagedSDPACall &call) {
    return std::min<int64_t>(call.table().dim(1) * call.keys().dim(2), INT32_MAX);
}

PagedRanges plan_paged_ranges(Lowering &lowering, const PagedSDPACall &call, uint32_t heads, bool quick, bool turns,
                              int64_t rounds) {
    const int64_t rows = call.q().dim(0), dv = call.out().dim(2), keys = keys_per_split(call, quick);
    PagedRanges ranges{};
    ranges.splits = uint32_t(most_splits(lowering.device(), paged_capacity(call), keys, rounds));
    const bool split = ranges.splits > 1;
    const int64_t row_bytes = call.q().dim(1) * ranges.splits * (dv + 2) * int64_t(sizeof(float));
    const int64_t bytes =
        std::min(lowering.device().is_cpu ? kCpuPartBytes : kPartBytes, int64_t(lowering.device().max_tensor_bytes));
    const int64_t most = bytes / row_bytes;
    ranges.rows = split && turns ? std::min(std::max<int64_t>(1, most), rows) : rows;
    const int64_t outputs = ranges.rows * call.q().dim(1);
    ranges.keys = split ? uint32_t(keys) : INT32_MAX;
    ranges.parts =
        split ? lowering.scratch(DT_FLOAT32, {outputs, ranges.splits, dv + 2}) : call.keys(); // otherwise not used
    ranges.arrivals = split ? lowering.counters(outputs / heads * divide_up(dv, kValuesChunk)) : call.keys();
    return ranges;
}

PagedPlan plan_paged(Lowering &lowering, const PagedSDPACall &call, bool turns) {
    const DeviceTraits &device = lowering.device();
    const int64_t d = call.q().dim(2), dv = call.out().dim(2), page = call.keys().dim(2);
    PagedPlan plan{};
    plan.lanes = device.subgroup_arithmetic ? device.subgroup_size : 32;
    plan.k_quads = std::max<uint32_t>(1, divide_up(d, plan.lanes * 4));
    plan.v_quads = divide_up(std::min(dv, kValuesChunk), plan.lanes * 4);
    if (plan.k_quads > kLaneQuads)
        unsupported("heads of {} elements", d);
    const uint32_t quads = std::max(plan.k_quads, plan.v_quads);
    plan.heads = heads_together(call.q().dim(1) / call.keys().dim(1), quads);
    const uint32_t most = device.is_cpu ? kCpuBatch : kMostBatch;
    plan.batch = std::max<uint32_t>(1, std::min(most, kMostScores / plan.heads) / quads);
    if (!device.is_cpu || device.as_gpu) {
        plan.heads = fewer_heads(plan, page);
    }
    plan.slots = slots_of(lowering, call, plan);
    plan.aligned = page % plan.batch == 0;
    const bool quick = plan.heads <= kQuickHeads;
    static_cast<PagedRanges &>(plan) =
        plan_paged_ranges(lowering, call, plan.heads, quick, turns, paged_rounds(lowering, call, plan));
    return plan;
}

namespace {

PagedSDPAParams params_of(const PagedSDPACall &call) {
    const Array &q = call.q(), &k = call.keys(), &v = call.values(), &table = call.table();
    PagedSDPAParams p{};
    p.rows = uint32_t(q.dim(0));
    p.key_heads = uint32_t(k.dim(1));
    p.group = uint32_t(q.dim(1) / k.dim(1));
    p.d = uint32_t(q.dim(2));
    p.dv = uint32_t(call.out().dim(2));
    p.page = uint32_t(k.dim(2));
    p.pages = uint32_t(k.dim(0));
    p.sequences = uint32_t(table.dim(0));
    p.capacity = uint32_t(paged_capacity(call));
    fill(p.q_strides, 3, q.strides, 3, 0);
    fill(p.k_strides, 4, k.strides, 4, 0);
    fill(p.v_strides, 4, v.strides, 4, 0);
    fill(p.table_strides, 2, table.strides, 2, 0);
    p.sequence_stride = uint32_t(call.sequences().stride(0));
    p.length_stride = uint32_t(call.lengths().stride(0));
    p.q_offset = uint32_t(q.offset);
    p.k_offset = uint32_t(k.offset);
    p.v_offset = uint32_t(v.offset);
    p.table_offset = uint32_t(table.offset);
    p.sequence_offset = uint32_t(call.sequences().offset);
    p.length_offset = uint32_t(call.lengths().offset);
    p.scale = call.op().scale;
    return p;
}

// How paged_sdpa loads keys or values, of which a workgroup has chunk elements of a head: K_VECTOR there.
uint32_t vector_of(const Array &x, int64_t chunk, uint32_t lane_quads, const PagedPlan &plan) {
    if (chunk == 0 || !quads_in_rows(x)) { // heads of no elements have no quad that a lane could load
        return 0;
    }
    return cache_head(x) % chunk == 0 && chunk == int64_t(4) * plan.lanes * lane_quads ? 2 : 1;
}

// Dispatches the kernel paged_sdpa.
void dispatch_paged_rows(Lowering &lowering, const PagedSDPACall &call, const Array &out, const PagedSDPAParams &all) {
    const Array &k = call.keys();
    const PagedPlan plan = plan_paged(lowering, call, true);
    take_turns(all, plan.rows, [&](const PagedSDPAParams &p, kpx_access writes) {
        Grid grid = grid_1d(lowering.device(),
                            int64_t(p.rows) * p.key_heads * p.group / plan.heads * divide_up(p.dv, kValuesChunk));
        grid.z = plan.splits;
        lowering.dispatch(spec::paged_sdpa{.threads = plan.slots * plan.lanes,
                                           .q_dtype = call.q().dtype,
                                           .k_dtype = k.dtype,
                                           .v_dtype = k.dtype,
                                           .y_dtype = out.dtype,
                                           .k_vector = vector_of(k, p.d, plan.k_quads, plan),
                                           .v_vector = vector_of(call.values(), std::min<int64_t>(p.dv, kValuesChunk),
                                                                 plan.v_quads, plan),
                                           .k_quads = plan.k_quads,
                                           .v_quads = plan.v_quads,
                                           .heads = plan.heads,
                                           .batch = plan.batch,
                                           .aligned = plan.aligned,
                                           .keys = plan.keys,
                                           .lanes = plan.lanes},
                          paged_row_bindings<spec::paged_sdpa::Bindings>(call, out, writes, plan), p, grid);
    });
}

} // namespace

void lower_paged_sdpa(Lowering &lowering, const PagedSDPACall &call) {
    check_paged(call);
    check_operands(
        {&call.q(), &call.keys(), &call.values(), &call.table(), &call.sequences(), &call.lengths(), &call.out()});
    const Array &out = call.out(), &k = call.keys();
    if (out.size() == 0)
        return;
    PagedSDPAParams p = params_of(call);
    if (p.capacity == 0 || k.dim(0) == 0) { // no row sees a key
        fill_array(lowering, out, 0);
        return;
    }
    const Array dense = dense_output(lowering, out);
    p.out_offset = uint32_t(dense.offset);
    if (takes_paged_tiles(lowering, p)) {
        dispatch_paged_tiles(lowering, call, dense, p);
        return store_output(lowering, dense, out);
    }
    if (takes_paged_fragments(lowering, call) && quads_in_rows(call.q())) {
        dispatch_paged_fragments(lowering, call, dense, p);
        return store_output(lowering, dense, out);
    }
    dispatch_paged_rows(lowering, call, dense, p);
    store_output(lowering, dense, out);
}

} // namespace kpx
