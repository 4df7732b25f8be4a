#include <algorithm>

#include "ops/lowering_util.hpp"

namespace kpx {

namespace {

constexpr int64_t kValuesChunk = 256;  // DV_CHUNK of paged_sdpa.comp
constexpr uint32_t kMostHeads = 8;     // MOST_HEADS there
constexpr uint32_t kHeadQuads = 16;    // most quads of q that a lane holds for all its heads together
constexpr int64_t kLaneQuads = 32;     // most quads of one head that a lane holds
constexpr uint32_t kMostBatch = 8;     // keys that a slot loads at once,
constexpr uint32_t kCpuBatch = 2;      // of CPU drivers, which have no loads in flight and compile slowly,
constexpr uint32_t kMostScores = 32;   // and their scores, of all heads
constexpr int64_t kKeysPerSplit = 256; // or more: fewer do not pay for combining them
constexpr int64_t kMostSplits = 16;    // MOST_SPLITS there

void check_paged(const PagedSDPACall &call) {
    const Array &q = call.q(), &k = call.keys(), &v = call.values(), &out = call.out();
    if (!is_float(q.dtype) || !is_float(k.dtype) || v.dtype != k.dtype || out.dtype != q.dtype)
        invalid("dtypes {}, {}, {} and {}", dtype_name(q.dtype), dtype_name(k.dtype), dtype_name(v.dtype),
                dtype_name(out.dtype));
    if (q.rank != 3 || k.rank != 4 || v.rank != 4 || out.rank != 3 || k.dim(3) != q.dim(2) || v.dim(0) != k.dim(0) ||
        v.dim(1) != k.dim(1) || v.dim(2) != k.dim(2) || out.dim(0) != q.dim(0) || out.dim(1) != q.dim(1) ||
        out.dim(2) != v.dim(3))
        invalid("q, keys, values and out do not match in shape");
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

// Query heads of a group that share a workgroup: a divisor of the group.
uint32_t heads_together(int64_t group, int64_t quads) {
    const int64_t most = std::min<int64_t>(kMostHeads, std::max<int64_t>(1, kHeadQuads / quads));
    for (int64_t heads = std::min(most, group); heads > 1; heads--) {
        if (group % heads == 0) {
            return uint32_t(heads);
        }
    }
    return 1;
}

// The most workgroups that the keys of a row are spread over: by the capacity alone, since lengths are known on the
// device, and so that a row's sums do not depend on how many rows there are.
int64_t most_splits(const DeviceTraits &device, int64_t capacity) {
    const int64_t needed = capacity / (1 << 20) + 1; // keeps loops short
    if (device.is_cpu && !device.as_gpu) {
        return std::min(kMostSplits, needed);
    }
    return std::min(kMostSplits, std::max(needed, (capacity + kKeysPerSplit - 1) / kKeysPerSplit));
}

PagedSDPAParams params_of(const PagedSDPACall &call) {
    const Array &q = call.q(), &k = call.keys(), &v = call.values(), &table = call.table();
    PagedSDPAParams p{};
    p.rows = uint32_t(q.dim(0));
    p.key_heads = uint32_t(k.dim(1));
    p.group = uint32_t(q.dim(1) / k.dim(1));
    p.d = uint32_t(q.dim(2));
    p.dv = uint32_t(v.dim(3));
    p.page = uint32_t(k.dim(2));
    p.pages = uint32_t(k.dim(0));
    p.sequences = uint32_t(table.dim(0));
    p.capacity = uint32_t(std::min<int64_t>(table.dim(1) * k.dim(2), INT32_MAX));
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

} // namespace

void lower_paged_sdpa(Lowering &lowering, const PagedSDPACall &call) {
    check_paged(call);
    check_operands(
        {&call.q(), &call.keys(), &call.values(), &call.table(), &call.sequences(), &call.lengths(), &call.out()});
    const DeviceTraits &device = lowering.device();
    const Array &out = call.out(), &k = call.keys();
    if (out.size() == 0)
        return;
    PagedSDPAParams p = params_of(call);
    if (p.capacity == 0 || k.dim(0) == 0) { // nobody sees a key
        fill_array(lowering, out, 0);
        return;
    }
    const uint32_t lanes = device.subgroup_arithmetic ? device.subgroup_size : 32;
    uint32_t slots = 8;
    while (slots > 1 && slots * lanes > std::min(device.max_workgroup_invocations, 256u))
        slots /= 2;
    const int64_t k_quads = std::max<int64_t>(1, (int64_t(p.d) + lanes * 4 - 1) / (lanes * 4));
    const int64_t v_quads = (std::min<int64_t>(p.dv, kValuesChunk) + lanes * 4 - 1) / (lanes * 4);
    if (k_quads > kLaneQuads)
        unsupported("heads of {} elements", p.d);
    const uint32_t heads = heads_together(p.group, std::max(k_quads, v_quads));
    const int64_t splits = most_splits(device, p.capacity);
    const Array dense = dense_output(lowering, out);
    const int64_t outputs = out.dim(0) * out.dim(1);
    const int64_t chunks = (p.dv + kValuesChunk - 1) / kValuesChunk;
    const int64_t groups = outputs / heads * chunks;
    const bool split = splits > 1;
    const Array parts =
        split ? lowering.scratch(DT_FLOAT32, {outputs, splits, int64_t(p.dv) + 2}) : call.q(); // else not touched
    const Array arrivals = split ? lowering.counters(groups) : call.q();
    p.out_offset = uint32_t(dense.offset);
    const uint32_t most_batch = device.is_cpu ? kCpuBatch : kMostBatch;
    const uint32_t batch =
        std::max<uint32_t>(1, std::min(most_batch, kMostScores / heads) / uint32_t(std::max(k_quads, v_quads)));
    Grid grid = grid_1d(device, groups);
    grid.z = uint32_t(splits);
    lowering.dispatch(spec::paged_sdpa{.threads = slots * lanes,
                                       .q_dtype = call.q().dtype,
                                       .k_dtype = k.dtype,
                                       .v_dtype = k.dtype,
                                       .y_dtype = dense.dtype,
                                       .k_vector = quads_in_rows(k),
                                       .v_vector = quads_in_rows(call.values()),
                                       .k_quads = uint32_t(k_quads),
                                       .v_quads = uint32_t(v_quads),
                                       .heads = heads,
                                       .batch = batch,
                                       .aligned = k.dim(2) % batch == 0,
                                       .keys = split ? uint32_t(kKeysPerSplit) : INT32_MAX,
                                       .lanes = lanes},
                      {.q = {call.q(), KPX_READ},
                       .k = {k, KPX_READ},
                       .v = {call.values(), KPX_READ},
                       .table = {call.table(), KPX_READ},
                       .sequences = {call.sequences(), KPX_READ},
                       .lengths = {call.lengths(), KPX_READ},
                       .y = {dense, KPX_WRITE},
                       .parts = {parts, split ? KPX_WRITE : KPX_READ},
                       .arrivals = {arrivals, split ? KPX_READ_WRITE : KPX_READ}},
                      p, grid);
    store_output(lowering, dense, out);
}

} // namespace kpx
