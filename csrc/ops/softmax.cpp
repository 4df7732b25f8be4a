#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: x, out. One shape, floating point, any layouts; along the last axis.
Support lower_softmax(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<SoftmaxOp>(call, 2);
    if (!checked.ok())
        return checked;
    Array x = call.arrays[0];
    const Array &out = call.arrays[1];
    if (!is_float(x.dtype) || !is_float(out.dtype))
        return unsupported("dtypes %s to %s", dtype_name(x.dtype), dtype_name(out.dtype));
    if (!same_shape(x, out))
        return unsupported("operands differ in shape");
    checked = check_operands(lowering, {&x, &out});
    if (!checked.ok() || x.size() == 0)
        return checked;
    SoftmaxParams params{};
    params.x = rows_of(lowering, x);
    RowShape shape = row_shape(lowering.device(), params.x.cols);
    checked = check_row_length(params.x.cols, shape.threads);
    if (!checked.ok())
        return checked;
    Array dense = dense_output(lowering, out);
    params.out_offset = uint32_t(dense.offset);
    lowering.dispatch("softmax", {shape.threads, x.dtype, out.dtype, shape.items}, {{x, KPX_READ}, {dense, KPX_WRITE}},
                      params, grid_1d(lowering.device(), params.x.rows));
    store_output(lowering, dense, out);
    return supported();
}

} // namespace kpx
