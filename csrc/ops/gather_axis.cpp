#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

// Whether x has out's shape except along axis.
static bool matches_but(const Array &x, const Array &out, uint32_t axis) {
    bool ok = x.rank == out.rank && axis < out.rank && x.dtype == out.dtype;
    for (uint32_t d = 0; ok && d < out.rank; d++)
        ok = d == axis || x.shape[d] == out.shape[d];
    return ok;
}

// x as seen from out's elements, at index 0 of the axis.
static Array without_axis(const Array &x, const Array &out, uint32_t axis) {
    Array seen = x;
    seen.shape = out.shape;
    seen.strides[axis] = 0;
    return seen;
}

void lower_gather_axis(Lowering &lowering, const GatherAxisCall &call) {
    Array x = call.x(), indices = call.indices();
    const Array &out = call.out();
    uint32_t axis = call.op().axis;
    if (!is_index_dtype(indices.dtype) || !same_shape(indices, out) || !matches_but(x, out, axis))
        invalid("operands do not match in shape or dtype");
    check_operands({&x, &indices, &out});
    if (out.size() == 0)
        return;
    if (x.size() == 0) { // every index is out of range
        fill_array(lowering, out, 0);
        return;
    }
    Array seen = without_axis(x, out, axis);
    if (collapse({&seen, &indices, &out}).rank >
        MAX_DIMS) { // if dense: the axes before it, the axis itself, and the axes after it
        x = contiguous(lowering, x);
        seen = without_axis(x, out, axis);
        indices = contiguous(lowering, indices);
        Array dense = dense_output(lowering, out);
        const Array again[] = {x, indices, dense};
        lower_gather_axis(lowering, GatherAxisCall(again, 3, call.op()));
        store_output(lowering, dense, out);
        return;
    }
    Walk3 walk(lowering, seen, indices, out);
    const uint32_t batch = batch_of(lowering.device(), out.size());
    lowering.dispatch(spec::gather_axis{.threads = element_threads(lowering.device()),
                                        .x_dtype = x.dtype,
                                        .y_dtype = out.dtype,
                                        .rank = walk.rank,
                                        .signed_indices = indices.dtype == DT_INT32 ? 1u : 0u,
                                        .batch = batch},
                      {.x = {x, KPX_READ}, .indices = {indices, KPX_READ}, .y = {out, KPX_WRITE}},
                      GatherAxisParams{walk.params, uint32_t(x.shape[axis]), uint32_t(x.strides[axis])},
                      grid_elements(lowering.device(), out.size(), batch));
}

} // namespace kpx
