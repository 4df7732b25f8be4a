#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

// Whether x has out's shape but for axis.
static bool matches_but(const Array &x, const Array &out, uint32_t axis) {
    bool ok = x.rank == out.rank && axis < out.rank && x.dtype == out.dtype;
    for (uint32_t d = 0; ok && d < out.rank; d++)
        ok = d == axis || x.shape[d] == out.shape[d];
    return ok;
}

// x as seen from out's elements, at place 0 of the axis.
static Array without_axis(const Array &x, const Array &out, uint32_t axis) {
    Array seen = x;
    seen.shape = out.shape;
    seen.strides[axis] = 0;
    return seen;
}

// Arrays: x, indices (int32 or uint32), out. One rank, any layouts.
Support lower_gather_axis(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<GatherAxisOp>(call, 3);
    if (!checked.ok())
        return checked;
    Array x = call.arrays[0], indices = call.arrays[1];
    const Array &out = call.arrays[2];
    uint32_t axis = call.as<GatherAxisOp>()->axis;
    if (!is_integer(indices.dtype) || !same_shape(indices, out) || !matches_but(x, out, axis))
        return unsupported("operands do not match in shape or dtype");
    checked = check_operands(lowering, {&x, &indices, &out});
    if (!checked.ok() || out.size() == 0)
        return checked;
    if (x.size() == 0) { // every index is outside
        fill_array(lowering, out, 0);
        return supported();
    }
    Array seen = without_axis(x, out, axis);
    if (collapse({&seen, &indices, &out}).rank > MAX_DIMS) { // dense, they are the axes before, of and after the axis
        x = contiguous(lowering, x);
        seen = without_axis(x, out, axis);
        indices = contiguous(lowering, indices);
        Array dense = dense_output(lowering, out);
        OpCall again = call;
        const Array arrays[] = {x, indices, dense};
        again.arrays = arrays;
        checked = lower_gather_axis(lowering, again);
        store_output(lowering, dense, out);
        return checked;
    }
    Walk3 walk(lowering, seen, indices, out);
    lowering.dispatch("gather_axis",
                      {ELEMENT_THREADS, x.dtype, out.dtype, walk.rank, indices.dtype == DT_INT32 ? 1u : 0u},
                      {{x, KPX_READ}, {indices, KPX_READ}, {out, KPX_WRITE}},
                      GatherAxisParams{walk.params, uint32_t(x.shape[axis]), uint32_t(x.strides[axis])},
                      grid_elements(lowering.device(), out.size()));
    return supported();
}

} // namespace kpx
