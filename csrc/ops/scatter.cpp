#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

static bool shapes_match(const Array &x, const Array &indices, const Array &updates, const ScatterOp &op) {
    if (op.axis >= x.rank)
        return false;
    const int64_t *s = x.shape.data(), *i = indices.shape.data(), *u = updates.shape.data();
    uint32_t picked = op.along ? 1 : indices.rank;
    if (updates.rank != x.rank - 1 + picked || (op.along && !same_shape(indices, updates)))
        return false;
    return std::equal(s, s + op.axis, u) && (op.along || std::equal(i, i + indices.rank, u + op.axis)) &&
           std::equal(s + op.axis + 1, s + x.rank, u + op.axis + picked);
}

static int64_t product(const Array &x, uint32_t first, uint32_t last) {
    int64_t n = 1;
    for (uint32_t d = first; d < last; d++)
        n *= x.shape[d];
    return n;
}

// The number of rounds of a thread's only long loop: CPU drivers do not allow many more (rounds.hpp), and on a GPU,
// each with a load, they would take too long.
constexpr uint32_t kLongestLoop = 30000;

// Updates find the next one by themselves if an index stands for at least kSharedIndices elements, or if there are more
// than kShortSearch indices; 300 to 4 million indices were measured (docs/performance/ops.md).
constexpr int64_t kSharedIndices = 8;
constexpr uint32_t kShortSearch = 256;

// How far a thread may search for an update's successor.
static uint32_t longest_search(const DeviceTraits &device) {
    return device.is_cpu ? kLongestLoop : 1 << 22;
}

// How many threads go through the indices of one place: one, unless each place gets many updates, since then the
// elements of out are too few to fill a device. It also bounds how long a thread's loop is.
static uint32_t team_size(const DeviceTraits &device, const ScatterParams &params, bool chained) {
    const uint32_t most = element_threads(device);
    uint32_t team = 1;
    while (team < most &&
           ((!chained && params.count / team > kLongestLoop) || params.count / team > 8 * int64_t(params.places)))
        team *= 2;
    return team;
}

// Records the first and the last update of each place in zeroed scratch memory, and lists of each place's updates in
// the second half of next, if it has one.
static Array mark_places(Lowering &lowering, const Array &indices, ScatterParams &params, int64_t places,
                         const Array &next, uint32_t along) {
    Array marks = lowering.scratch(DT_UINT32, {(next ? 3 : 2) * places});
    fill_array(lowering, marks, 0);
    params.marks_offset = uint32_t(marks.offset);
    params.heads_offset = uint32_t(marks.offset + 2 * places);
    ScatterParams own = params;
    own.n = uint32_t(indices.size());
    lowering.dispatch(
        spec::scatter_mark{.threads = element_threads(lowering.device()),
                           .signed_indices = indices.dtype == DT_INT32 ? 1u : 0u,
                           .along = along,
                           .listed = bool(next)},
        {.indices = {indices, KPX_READ}, .marks = {marks, KPX_READ_WRITE}, .links = {next ? next : marks, KPX_WRITE}},
        own, grid_elements(lowering.device(), own.n));
    return marks;
}

// Records for each update the next one for the same place.
static void chain_updates(Lowering &lowering, const Array &indices, const Array &marks, const Array &next,
                          const ScatterParams &params) {
    lowering.dispatch(spec::scatter_chain{.threads = 64, .signed_indices = indices.dtype == DT_INT32 ? 1u : 0u},
                      {.indices = {indices, KPX_READ}, .marks = {marks, KPX_READ}, .next = {next, KPX_READ_WRITE}},
                      params, grid_1d(lowering.device(), (int64_t(params.count) + 63) / 64));
}

static void scatter_into(Lowering &lowering, Array indices, Array updates, const Array &out, const ScatterOp &op) {
    indices = contiguous(lowering, indices);
    updates = contiguous(lowering, updates);
    ScatterParams params{};
    params.n = uint32_t(updates.size());
    params.post = uint32_t(product(out, op.axis + 1, out.rank));
    params.places = uint32_t(out.shape[op.axis]);
    int64_t pre = product(out, 0, op.axis);
    params.count = uint32_t(updates.size() / (pre * params.post));
    params.index_offset = uint32_t(indices.offset);
    params.updates_offset = uint32_t(updates.offset);
    params.out_offset = uint32_t(out.offset);
    int64_t places = op.along ? out.size() : int64_t(params.places);
    if (3 * places > int64_t(UINT32_MAX))
        unsupported("{} places are too many", places);
    // Chains are worth a launch if several elements of each update have the same index, or if searches are long.
    bool chained = op.mode != SCATTER_SET && !op.along &&
                   (pre * params.post >= kSharedIndices || params.count > kShortSearch) &&
                   params.count <= longest_search(lowering.device());
    const uint32_t team = op.mode == SCATTER_SET ? 1 : team_size(lowering.device(), params, chained);
    chained = chained && team == 1;
    if (op.mode != SCATTER_SET && !chained && params.count / team > kLongestLoop)
        unsupported("{} updates along an axis are too many", params.count);
    const Array next = chained ? lowering.scratch(DT_UINT32, {2 * int64_t(params.count)}) : Array{};
    const Array marks = mark_places(lowering, indices, params, places, next, op.along);
    if (chained)
        chain_updates(lowering, indices, marks, next, params);
    const bool quads =
        team == 1 && !op.along && params.post % 4 == 0 && params.updates_offset % 4 == 0 && params.out_offset % 4 == 0;
    if (quads)
        for (uint32_t *elements : {&params.n, &params.post, &params.updates_offset, &params.out_offset})
            *elements /= 4;
    int64_t width = element_threads(lowering.device()) / team;
    lowering.dispatch(spec::scatter{.threads = element_threads(lowering.device()),
                                    .updates_dtype = updates.dtype,
                                    .y_dtype = out.dtype,
                                    .signed_indices = indices.dtype == DT_INT32 ? 1u : 0u,
                                    .along = op.along,
                                    .mode = op.mode,
                                    .team = team,
                                    .chained = chained,
                                    .quads = quads},
                      {.updates = {updates, KPX_READ},
                       .indices = {indices, KPX_READ},
                       .marks = {marks, KPX_READ},
                       .y = {out, KPX_READ_WRITE},
                       .next = {chained ? next : marks, KPX_READ}},
                      params, grid_1d(lowering.device(), (int64_t(params.n) + width - 1) / width));
}

void lower_scatter(Lowering &lowering, const ScatterCall &call) {
    const Array &x = call.x(), &indices = call.indices(), &updates = call.updates(), &out = call.out();
    const ScatterOp &op = call.op();
    if (x.dtype != out.dtype || updates.dtype != out.dtype || !is_index_dtype(indices.dtype) || !same_shape(x, out) ||
        !shapes_match(x, indices, updates, op))
        invalid("operands do not match in shape or dtype");
    if (op.mode > SCATTER_MAX || op.along > 1)
        invalid("there is no mode {}", op.mode);
    check_operands({&x, &indices, &updates, &out});
    if (out.size() == 0)
        return;
    if (updates.size() == 0) {
        copy_array(lowering, x, out);
        return;
    }
    Array dense = dense_output(lowering, out);
    copy_array(lowering, x, dense);
    scatter_into(lowering, indices, updates, dense, op);
    store_output(lowering, dense, out);
}

} // namespace kpx
