#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: x, weight? [cols], out. Floating point, any layouts; along the last axis.
Support lower_rms_norm(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<RMSNormOp>(call, 3, 1u << 1);
    if (!checked.ok())
        return checked;
    Array x = call.arrays[0];
    const Array &weight = call.arrays[1], &out = call.arrays[2];
    if (!is_float(x.dtype) || !is_float(out.dtype) || (weight && !is_float(weight.dtype)))
        return unsupported("dtypes %s to %s", dtype_name(x.dtype), dtype_name(out.dtype));
    int64_t cols = x.rank > 0 ? x.dim(-1) : 1;
    if (!same_shape(x, out) || (weight && (weight.rank != 1 || weight.shape[0] != cols)))
        return unsupported("operands do not match in shape");
    checked = check_operands(lowering, {&x, &weight, &out});
    if (!checked.ok() || x.size() == 0)
        return checked;
    RMSNormParams params{};
    params.x = rows_of(lowering, x);
    params.eps = call.as<RMSNormOp>()->eps;
    params.w_offset = weight ? uint32_t(weight.offset) : 0;
    params.w_stride = weight ? uint32_t(weight.strides[0]) : 0;
    RowShape shape = row_shape(lowering.device(), params.x.cols);
    checked = check_row_length(params.x.cols, shape.threads);
    if (!checked.ok())
        return checked;
    Array dense = dense_output(lowering, out);
    params.out_offset = uint32_t(dense.offset);
    const Array &w = weight ? weight : x;
    lowering.dispatch("rms_norm", {shape.threads, x.dtype, w.dtype, out.dtype, weight ? 1u : 0u, shape.items},
                      {{x, KPX_READ}, {w, KPX_READ}, {dense, KPX_WRITE}}, params,
                      grid_1d(lowering.device(), params.x.rows));
    store_output(lowering, dense, out);
    return supported();
}

} // namespace kpx
