#include "ops/lowering_util.hpp"

namespace kpx {

void lower_rms_norm(Lowering &lowering, const RMSNormCall &call) {
    Array x = call.x();
    const Array &weight = call.weight(), &out = call.out();
    if (!is_float(x.dtype) || !is_float(out.dtype) || (weight && !is_float(weight.dtype)))
        invalid("dtypes {} to {}", dtype_name(x.dtype), dtype_name(out.dtype));
    int64_t cols = x.rank > 0 ? x.dim(-1) : 1;
    if (!same_shape(x, out) || (weight && (weight.rank != 1 || weight.shape[0] != cols)))
        invalid("operands do not match in shape");
    check_operands({&x, &weight, &out});
    if (x.size() == 0)
        return;
    RMSNormParams params{};
    params.x = rows_of(lowering, x);
    params.eps = call.op().eps;
    params.w_offset = weight ? uint32_t(weight.offset) : 0;
    params.w_stride = weight ? uint32_t(weight.strides[0]) : 0;
    RowShape shape = row_shape(lowering.device(), params.x.cols);
    check_row_length(params.x.cols, shape.threads);
    Array dense = dense_output(lowering, out);
    params.out_offset = uint32_t(dense.offset);
    const Array &w = weight ? weight : x;
    lowering.dispatch(spec::rms_norm{.threads = shape.threads,
                                     .x_dtype = x.dtype,
                                     .w_dtype = w.dtype,
                                     .y_dtype = out.dtype,
                                     .has_weight = weight ? 1u : 0u,
                                     .items = shape.items,
                                     .quads = row_quads(lowering.device(), params.x, {&weight, &dense})},
                      {.x = {x, KPX_READ}, .w = {w, KPX_READ}, .y = {dense, KPX_WRITE}}, params,
                      grid_1d(lowering.device(), params.x.rows));
    store_output(lowering, dense, out);
}

} // namespace kpx
