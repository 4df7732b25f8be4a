#include "ops/sdpa.hpp"

#include <algorithm>

namespace kpx {

namespace {

constexpr int64_t kMatrixHead = 128; // the most elements of a head in sdpa_coopmat
// Subgroups of sdpa_fragments have two tiles of rows if that leaves so many workgroups for each compute unit: then it
// is faster.
constexpr int64_t kGroupsOfTwoTiles = 3;
// How many workgroups for each compute unit there should be, at most, after dividing the keys of rows among them.
constexpr int64_t kGroupsAtOnce = 2;
// From this number of rows of all heads times keys on, matrices are worth it for less than a tile of rows.
constexpr int64_t kMuchToDo = 1 << 19;

// Runs of 8 elements of a head, padded to whole matrices.
uint32_t matrix_runs(uint32_t d) {
    return (d + 15) / 16 * 2;
}

// An operand as float16 parts of [batch, key heads, steps, heads of a group], with the exponents of its rows.
struct SplitOperand {
    Array parts, exponents;
    uint32_t count;
};

// Splits an operand. Rows are padded to a multiple of `unit` elements, and heads to whole tiles unless the order is
// that of rows. length: how many of the steps exist, if it is not absent.
SplitOperand split(Lowering &lowering, const Array &x, uint32_t group, uint32_t order, uint32_t unit,
                   const Array &length = {}) {
    const int64_t used = x.dim(2) * group, tile = order == SPLIT_ROWS ? 1 : order == SPLIT_QUERIES ? 16 : SPLIT_TILE;
    const int64_t head_rows = divide_up(used, tile) * tile, heads = x.dim(1) / group;
    const int64_t rows = x.dim(0) * heads * head_rows, spare = 2 * kTile; // sdpa_coopmat reads past the last row
    SDPASplitParams p{};
    p.rows = uint32_t(rows);
    p.cols = uint32_t(x.dim(3));
    p.runs = divide_up(p.cols, unit) * unit / 8;
    p.head_rows = uint32_t(head_rows);
    p.used_rows = uint32_t(used);
    p.heads = uint32_t(heads);
    p.group = group;
    const int64_t strides[4] = {x.stride(0), x.stride(1) * group, x.stride(2), x.stride(1)};
    std::copy(strides, strides + 4, p.strides);
    p.col_stride = uint32_t(x.stride(3));
    p.offset = uint32_t(x.offset);
    p.length_offset = uint32_t(length.offset);
    const uint32_t count = x.dtype == DT_FLOAT32 ? 2 : 1;
    SplitOperand out{lowering.scratch(DT_UINT32, {count * rows + spare, p.runs * 4}),
                     lowering.scratch(DT_INT32, {rows}), count};
    lowering.dispatch(spec::sdpa_split{.threads = 128,
                                       .x_dtype = x.dtype,
                                       .parts = count,
                                       .vector = quads_in_rows(x),
                                       .has_length = uint32_t(bool(length)),
                                       .order = order},
                      {.x = {x, KPX_READ},
                       .parts = {out.parts, KPX_WRITE},
                       .exponents = {out.exponents, KPX_WRITE},
                       .lengths = {length ? length : x, KPX_READ}},
                      p, grid_1d(lowering.device(), (rows + 7) / 8));
    return out;
}

// How many tiles of q fit into shared memory with sdpa_fragments, for each subgroup.
uint32_t held_tiles(const Lowering &lowering, const Attention &a) {
    return lowering.device().max_shared_bytes / (divide_up(a.p.d, 32) * 2 * SDPA_WAVES * 32 * 16);
}

// Whether a device that runs sdpa_coopmat can also run sdpa_fragments.
bool prefers_fragments(const Lowering &lowering, const Attention &a) {
    const uint32_t q_parts = a.q.dtype == DT_FLOAT32 ? 2 : 1;
    return lowering.device().fragments && lowering.has_kernel(spec::sdpa_fragments::kKernel) &&
           held_tiles(lowering, a) >= q_parts;
}

// Workgroups for one range of keys, of sdpa_fragments, or with one tile of rows of sdpa_coopmat.
int64_t row_groups(const Attention &a, uint32_t row_tiles) {
    const int64_t rows = head_rows(a);
    return a.p.rows / rows * divide_up(rows, int64_t(row_tiles) * SDPA_WAVES * 16);
}

// How many workgroups share the keys of rows, so that there are enough of them.
int64_t key_ranges(const DeviceTraits &device, const Attention &a) {
    if (device.is_cpu && !device.as_gpu) {
        return 1;
    }
    const int64_t wanted = kGroupsAtOnce * device.compute_units / row_groups(a, 1);
    return std::clamp<int64_t>(wanted, 1, std::min<int64_t>(kMostRanges, divide_up(a.p.keys, kKeysOfRange)));
}

// Whether a tensor can hold the parts of an operand's rows, which are padded (split).
bool parts_fit(const DeviceTraits &device, const Array &x) {
    const int64_t rows = x.dim(0) * x.dim(1) * (x.dim(2) + SPLIT_TILE) * (x.dtype == DT_FLOAT32 ? 2 : 1) + 2 * kTile;
    return uint64_t(rows) * divide_up(x.dim(3), 32) * 64 <= device.max_tensor_bytes;
}

bool is_worth_matrices(const DeviceTraits &device, const Attention &a) {
    const int64_t rows = head_rows(a);
    if (device.is_cpu && !device.as_gpu) {
        return rows >= kFewRows;
    }
    const bool has_work = rows >= kTile || (rows >= kFewRows && int64_t(a.p.rows) * a.p.keys >= kMuchToDo);
    return has_work && row_groups(a, 1) * key_ranges(device, a) >= kTiledGroups;
}

// The tiles of rows that a subgroup of sdpa_fragments has: with two, keys and values are loaded half as often, but
// there are half as many subgroups.
uint32_t fragment_row_tiles(const Lowering &lowering, const Attention &a) {
    const bool has_many = row_groups(a, 2) >= kGroupsOfTwoTiles * lowering.device().compute_units;
    return has_many && held_tiles(lowering, a) >= 2 ? 2 : 1;
}

// The constants of sdpa_coopmat for sdpa_fragments.
spec::sdpa_fragments in_fragments(const spec::sdpa_coopmat &s, uint32_t w_parts, uint32_t row_tiles, uint32_t q_held) {
    return {.threads = SDPA_WAVES * s.lanes,
            .q_dtype = s.q_dtype,
            .k_dtype = s.k_dtype,
            .v_dtype = s.v_dtype,
            .mask_dtype = s.mask_dtype,
            .y_dtype = s.y_dtype,
            .mask_kind = s.mask_kind,
            .has_length = s.has_length,
            .q_parts = s.q_parts,
            .k_parts = s.k_parts,
            .v_parts = s.v_parts,
            .k_steps = s.k_steps,
            .v_steps = s.v_steps,
            .lanes = s.lanes,
            .has_ranges = s.has_ranges,
            .w_parts = w_parts,
            .row_tiles = row_tiles,
            .q_held = std::min(s.q_parts * row_tiles, q_held)};
}

} // namespace

bool prefers_matrices(const Lowering &lowering, const Attention &a) {
    const DeviceTraits &device = lowering.device();
    const uint32_t pitch = std::max(matrix_runs(a.p.d), matrix_runs(a.p.dv)) + 1;
    return a.p.keys > 0 && a.p.d > 0 && a.p.d <= kMatrixHead && a.p.dv <= kMatrixHead && a.p.dv > 0 &&
           a.p.keys <= kMostTiledKeys && is_worth_matrices(device, a) && parts_fit(device, a.q) &&
           parts_fit(device, a.k) && parts_fit(device, a.v) &&
           (device.subgroup_size == 32 || device.subgroup_size == 64) &&
           device.subgroup_size * 4 <= device.max_workgroup_invocations &&
           64 * pitch * 16 + 10240 <= device.max_shared_bytes && lowering.has_kernel(spec::sdpa_coopmat::kKernel) &&
           lowering.has_kernel(spec::sdpa_split::kKernel);
}

void dispatch_matrices(Lowering &lowering, const Attention &a) {
    const bool fragments = prefers_fragments(lowering, a);
    const uint32_t unit = fragments ? 32 : 16;
    const int64_t ranges = key_ranges(lowering.device(), a);
    const Array results = range_results(lowering, a, ranges);
    SDPAParams p = a.p;
    p.out_offset = uint32_t(results.offset);
    const Array &mask = a.mask ? a.mask : a.q;
    const Array &length = a.length ? a.length : a.q;
    const SplitOperand q = split(lowering, a.q, p.group, fragments ? SPLIT_QUERIES : SPLIT_ROWS, unit),
                       k = split(lowering, a.k, 1, fragments ? SPLIT_KEYS : SPLIT_ROWS, unit, a.length),
                       v = split(lowering, a.v, 1, fragments ? SPLIT_VALUES : SPLIT_ROWS, unit, a.length);
    const uint32_t lanes = lowering.device().subgroup_size;
    const spec::sdpa_coopmat spec{.threads = 4 * lanes,
                                  .q_dtype = a.q.dtype,
                                  .k_dtype = a.k.dtype,
                                  .v_dtype = a.v.dtype,
                                  .mask_dtype = mask.dtype,
                                  .y_dtype = results.dtype,
                                  .mask_kind = mask_kind(a),
                                  .has_length = uint32_t(bool(a.length)),
                                  .q_parts = q.count,
                                  .k_parts = k.count,
                                  .v_parts = v.count,
                                  .k_steps = matrix_runs(p.d) / 2,
                                  .v_steps = matrix_runs(p.dv) / 2,
                                  .lanes = lanes,
                                  .has_ranges = ranges > 1};
    const auto dispatch = [&](const auto &s, int64_t groups) {
        Grid grid = grid_1d(lowering.device(), groups);
        grid.z = uint32_t(ranges);
        lowering.dispatch(s,
                          {.q = {a.q, KPX_READ},
                           .k = {a.k, KPX_READ},
                           .v = {a.v, KPX_READ},
                           .mask = {mask, KPX_READ},
                           .lengths = {length, KPX_READ},
                           .y = {results, KPX_WRITE},
                           .q_parts = {q.parts, KPX_READ},
                           .k_parts = {k.parts, KPX_READ},
                           .v_parts = {v.parts, KPX_READ},
                           .q_exponents = {q.exponents, KPX_READ},
                           .k_exponents = {k.exponents, KPX_READ},
                           .v_exponents = {v.exponents, KPX_READ}},
                          p, grid);
    };
    if (fragments) {
        const uint32_t w_parts = a.q.dtype == DT_FLOAT32 ? 2 : 1;
        const uint32_t row_tiles = fragment_row_tiles(lowering, a);
        dispatch(in_fragments(spec, w_parts, row_tiles, held_tiles(lowering, a)), row_groups(a, row_tiles));
    } else {
        dispatch(spec, row_groups(a, 1));
    }
    combine_ranges(lowering, a, results, ranges);
}

} // namespace kpx
