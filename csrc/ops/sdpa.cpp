#include <algorithm>

#include "ops/rounds.hpp"
#include "ops/sdpa.hpp"

namespace kpx {

namespace {

constexpr int64_t kValuesChunk = 256; // DV_CHUNK of sdpa.comp
constexpr int64_t kLaneQuads = 32;    // the most quads of a head that a lane holds
constexpr int64_t kGroups = 512;      // with that many workgroups, keys are not split

void check_mask(const Array &q, const Array &k, const Array &mask) {
    if (!mask) {
        return;
    }
    if (mask.dtype != DT_BOOL && !is_float(mask.dtype)) {
        invalid("a mask of {}", dtype_name(mask.dtype));
    }
    if (mask.rank != 4 || mask.dim(0) != q.dim(0) || mask.dim(1) != q.dim(1) || mask.dim(2) != q.dim(2) ||
        mask.dim(3) != k.dim(2)) {
        invalid("the mask is not [B, Hq, Tq, Tk]");
    }
}

void check_attention(const Attention &a) {
    for (const Array *x : {&a.q, &a.k, &a.v, &a.out}) {
        if (!*x || x->rank != 4 || !is_float(x->dtype)) {
            invalid("q, k, v and out must be floats of rank 4");
        }
    }
    if (a.v.dtype != a.k.dtype || a.out.dtype != a.q.dtype) {
        invalid("q, k, v and out of {}, {}, {} and {}", dtype_name(a.q.dtype), dtype_name(a.k.dtype),
                dtype_name(a.v.dtype), dtype_name(a.out.dtype));
    }
    if (a.k.dim(0) != a.q.dim(0) || a.v.dim(0) != a.q.dim(0) || a.v.dim(1) != a.k.dim(1) || a.v.dim(2) != a.k.dim(2) ||
        a.k.dim(3) != a.q.dim(3)) {
        invalid("q, k and v do not fit");
    }
    if (a.out.dim(0) != a.q.dim(0) || a.out.dim(1) != a.q.dim(1) || a.out.dim(2) != a.q.dim(2) ||
        a.out.dim(3) != a.v.dim(3)) {
        invalid("out is not [B, Hq, Tq, Dv]");
    }
    if (a.k.dim(1) == 0 || a.q.dim(1) % a.k.dim(1) != 0) {
        invalid("{} query heads for {} key heads", a.q.dim(1), a.k.dim(1));
    }
    if (a.length && (a.length.dtype != DT_INT32 || a.length.size() != 1)) {
        invalid("key_length must be int32 [1]");
    }
    return check_mask(a.q, a.k, a.mask);
}

void fill_params(Attention &a, const SDPAOp &op) {
    SDPAParams &p = a.p;
    p.rows = uint32_t(a.q.dim(0) * a.q.dim(1) * a.q.dim(2));
    p.heads = uint32_t(a.q.dim(1));
    p.group = uint32_t(a.q.dim(1) / a.k.dim(1));
    p.queries = uint32_t(a.q.dim(2));
    p.keys = uint32_t(a.k.dim(2));
    p.d = uint32_t(a.q.dim(3));
    p.dv = uint32_t(a.v.dim(3));
    fill(p.q_strides, 4, a.q.strides, 4, 0);
    fill(p.k_strides, 4, a.k.strides, 4, 0);
    fill(p.v_strides, 4, a.v.strides, 4, 0);
    fill(p.mask_strides, 4, a.mask.strides, a.mask.rank, 0);
    p.q_offset = uint32_t(a.q.offset);
    p.k_offset = uint32_t(a.k.offset);
    p.v_offset = uint32_t(a.v.offset);
    p.mask_offset = uint32_t(a.mask.offset);
    p.length_offset = uint32_t(a.length.offset);
    p.causal = op.causal;
    p.scale = op.scale;
}

// The number of workgroups that share the keys of a query. It depends on the
// capacity of the cache, since the length is known only to the device.
// rounds: of the kernel's loops if a workgroup has all keys (rounds.hpp).
int64_t plan_ranges(const DeviceTraits &device, const Attention &a, int64_t rounds) {
    if (device.is_cpu) {
        return rounds / kMostRounds + 1;
    }
    const int64_t needed = int64_t(a.p.keys) / (1 << 20) + 1;
    const int64_t wanted = std::min<int64_t>(divide_up(a.p.keys, kKeysOfRange), kGroups / a.p.rows);
    return std::max(needed, std::min(wanted, kMostRanges));
}

// The rounds of sdpa_tiled's loops. For a tile of 64 keys, scores take 6 for every 16 elements of the head, weights 40,
// and values 30 for every 64 elements; if some are not finite, the same again without most of the latter.
int64_t sdpa_tile_rounds(const Attention &a) {
    const int64_t scores = 6 * divide_up(a.p.d, 16) + 1, values = divide_up(a.p.dv, kTile);
    return int64_t(divide_up(a.p.keys, kTile)) * (2 * scores + 40 + 30 * values + 20 + 18 * values);
}

// The number of workgroups of sdpa_tiled; 0 if it cannot run or sdpa is faster.
int64_t plan_tiles(const DeviceTraits &device, const Attention &a) {
    if (a.p.d == 0 || a.p.dv > kValuesChunk || a.p.keys > kMostTiledKeys || device.max_workgroup_invocations < 256) {
        return 0;
    }
    const int64_t rows = head_rows(a), groups = a.p.rows / rows * divide_up(rows, kTile);
    const bool worth = device.is_cpu ? rows >= kFewRows : rows >= kTile && groups >= kTiledGroups;
    return worth && !too_many_rounds(device, sdpa_tile_rounds(a)) ? groups : 0;
}

void dispatch_tiled(Lowering &lowering, const Attention &a, int64_t groups) {
    SDPAParams p = a.p;
    p.out_offset = uint32_t(a.out.offset);
    const Array &mask = a.mask ? a.mask : a.q;
    const Array &length = a.length ? a.length : a.q;
    lowering.dispatch(spec::sdpa_tiled{.q_dtype = a.q.dtype,
                                       .k_dtype = a.k.dtype,
                                       .v_dtype = a.v.dtype,
                                       .mask_dtype = mask.dtype,
                                       .y_dtype = a.out.dtype,
                                       .k_vector = quads_in_rows(a.k),
                                       .v_vector = quads_in_rows(a.v),
                                       .mask_kind = mask_kind(a),
                                       .has_length = uint32_t(bool(a.length)),
                                       .dv_tiles = (p.dv + kTile - 1) / kTile},
                      {.q = {a.q, KPX_READ},
                       .k = {a.k, KPX_READ},
                       .v = {a.v, KPX_READ},
                       .mask = {mask, KPX_READ},
                       .lengths = {length, KPX_READ},
                       .y = {a.out, KPX_WRITE}},
                      p, grid_1d(lowering.device(), groups));
}

void dispatch_rows(Lowering &lowering, const Attention &a) {
    const DeviceTraits &device = lowering.device();
    const uint32_t lanes = device.subgroup_arithmetic ? device.subgroup_size : 32;
    uint32_t slots = 8;
    while (slots > 1 && slots * lanes > std::min(device.max_workgroup_invocations, 256u)) {
        slots /= 2;
    }
    const int64_t k_quads = std::max<int64_t>(1, (int64_t(a.p.d) + lanes * 4 - 1) / (lanes * 4));
    const int64_t v_quads = (std::min<int64_t>(a.p.dv, kValuesChunk) + lanes * 4 - 1) / (lanes * 4);
    if (k_quads > kLaneQuads) {
        unsupported("heads of {} elements", a.p.d);
    }
    // For each BATCH of 4 keys of all slots, lanes add up all scores, and have loops over their quads for each key.
    const bool subgroups = lowering.runs_variant(spec::sdpa::kKernel, "subgroup");
    const int64_t of_key = k_quads + 1 + 3 * (v_quads + 1) + (subgroups ? 0 : lanes + 1);
    const int64_t rounds = divide_up(a.p.keys, slots * 4) * (4 * of_key + v_quads + 2);
    const int64_t ranges = plan_ranges(device, a, rounds);
    const Array to = range_results(lowering, a, ranges);
    SDPAParams p = a.p;
    p.out_offset = uint32_t(to.offset);
    const Array &mask = a.mask ? a.mask : a.q;
    const Array &length = a.length ? a.length : a.q;
    Grid grid = grid_1d(device, int64_t(p.rows) * ((a.p.dv + kValuesChunk - 1) / kValuesChunk));
    grid.z = uint32_t(ranges);
    lowering.dispatch(spec::sdpa{.threads = slots * lanes,
                                 .q_dtype = a.q.dtype,
                                 .k_dtype = a.k.dtype,
                                 .v_dtype = a.v.dtype,
                                 .mask_dtype = mask.dtype,
                                 .y_dtype = to.dtype,
                                 .k_vector = quads_in_rows(a.k),
                                 .v_vector = quads_in_rows(a.v),
                                 .k_quads = uint32_t(k_quads),
                                 .v_quads = uint32_t(v_quads),
                                 .mask_kind = mask_kind(a),
                                 .has_length = uint32_t(bool(a.length)),
                                 .has_ranges = uint32_t(ranges > 1),
                                 .lanes = lanes},
                      {.q = {a.q, KPX_READ},
                       .k = {a.k, KPX_READ},
                       .v = {a.v, KPX_READ},
                       .mask = {mask, KPX_READ},
                       .lengths = {length, KPX_READ},
                       .y = {to, KPX_WRITE}},
                      p, grid);
    combine_ranges(lowering, a, to, ranges);
}

} // namespace

Array range_results(Lowering &lowering, const Attention &a, int64_t ranges) {
    return ranges > 1 ? lowering.scratch(DT_FLOAT32, {int64_t(a.p.rows), ranges, int64_t(a.p.dv) + 2}) : a.out;
}

void combine_ranges(Lowering &lowering, const Attention &a, const Array &results, int64_t ranges) {
    if (ranges == 1) {
        return;
    }
    const Grid grid = grid_elements(lowering.device(), a.out.size());
    const uint32_t threads = element_threads(lowering.device());
    check_rounds(lowering.device(), 3 * (ranges + 2) * (a.out.size() / (int64_t(grid.x) * threads) + 1));
    const SDPACombineParams p{a.p.rows, uint32_t(ranges), a.p.dv, uint32_t(a.out.offset)};
    lowering.dispatch(spec::sdpa_combine{.threads = threads, .y_dtype = a.out.dtype},
                      {.part = {results, KPX_READ}, .y = {a.out, KPX_WRITE}}, p, grid);
}

void lower_sdpa(Lowering &lowering, const SDPACall &call) {
    Attention a{call.q(), call.k(), call.v(), call.mask(), call.key_length(), call.out()};
    check_operands({&a.q, &a.k, &a.v, &a.mask, &a.length, &a.out});
    check_attention(a);
    if (a.out.size() == 0) {
        return;
    }
    const Array out = a.out;
    a.out = dense_output(lowering, out);
    fill_params(a, call.op());
    if (prefers_matrices(lowering, a)) {
        dispatch_matrices(lowering, a);
    } else if (const int64_t groups = plan_tiles(lowering.device(), a);
               groups > 0 && lowering.has_kernel(spec::sdpa_tiled::kKernel)) {
        dispatch_tiled(lowering, a, groups);
    } else {
        dispatch_rows(lowering, a);
    }
    store_output(lowering, a.out, out);
}

} // namespace kpx
