#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

static Walk4Params walk_of(const Axes &axes) {
    Walk4Params params{};
    params.n = uint32_t(axes.size());
    fill(params.shape, MAX_DIMS, axes.shape, axes.rank, 1);
    fill(params.c_strides, MAX_DIMS, axes.strides[0], axes.rank, 0);
    fill(params.a_strides, MAX_DIMS, axes.strides[1], axes.rank, 0);
    fill(params.b_strides, MAX_DIMS, axes.strides[2], axes.rank, 0);
    fill(params.out_strides, MAX_DIMS, axes.strides[3], axes.rank, 0);
    params.c_offset = uint32_t(axes.offset[0]);
    params.a_offset = uint32_t(axes.offset[1]);
    params.b_offset = uint32_t(axes.offset[2]);
    params.out_offset = uint32_t(axes.offset[3]);
    return params;
}

// Arrays: condition (bool), a, b, out. One shape, any layouts.
Support lower_where(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<WhereOp>(call, 4);
    if (!checked.ok())
        return checked;
    Array c = call.arrays[0], a = call.arrays[1], b = call.arrays[2];
    const Array &out = call.arrays[3];
    if (c.dtype != DT_BOOL || a.dtype != out.dtype || b.dtype != out.dtype || !same_shape(c, out) ||
        !same_shape(a, out) || !same_shape(b, out))
        return unsupported("operands differ in shape or dtype");
    checked = check_operands(lowering, {&c, &a, &b, &out});
    if (!checked.ok() || out.size() == 0)
        return checked;
    Array dense = out;
    Axes axes = collapse({&c, &a, &b, &dense});
    if (axes.rank > MAX_DIMS) {
        c = contiguous(lowering, c);
        a = contiguous(lowering, a);
        b = contiguous(lowering, b);
        dense = dense_output(lowering, out);
        axes = collapse({&c, &a, &b, &dense});
    }
    lowering.dispatch("where", {ELEMENT_THREADS, c.dtype, a.dtype, b.dtype, dense.dtype, std::max(axes.rank, 1u)},
                      {{c, KPX_READ}, {a, KPX_READ}, {b, KPX_READ}, {dense, KPX_WRITE}}, walk_of(axes),
                      grid_elements(lowering.device(), out.size()));
    store_output(lowering, dense, out);
    return supported();
}

} // namespace kpx
