#include "ops/lowering_util.hpp"

namespace kpx {

// Whether a weight or bias is absent, or has the length of a row.
static bool fits(const Array &v, int64_t cols) {
    return !v || (is_float(v.dtype) && v.rank == 1 && v.shape[0] == cols);
}

void lower_layer_norm(Lowering &lowering, const LayerNormCall &call) {
    Array x = call.x();
    const Array &weight = call.weight(), &bias = call.bias(), &out = call.out();
    if (!is_float(x.dtype) || !is_float(out.dtype))
        invalid("dtypes {} to {}", dtype_name(x.dtype), dtype_name(out.dtype));
    const int64_t cols = x.rank > 0 ? x.dim(-1) : 1;
    if (!same_shape(x, out) || !fits(weight, cols) || !fits(bias, cols))
        invalid("operands do not match");
    check_operands({&x, &weight, &bias, &out});
    if (x.size() == 0)
        return;
    LayerNormParams params{};
    params.x = rows_of(lowering, x);
    params.eps = call.op().eps;
    params.w_offset = weight ? uint32_t(weight.offset) : 0;
    params.w_stride = weight ? uint32_t(weight.strides[0]) : 0;
    params.b_offset = bias ? uint32_t(bias.offset) : 0;
    params.b_stride = bias ? uint32_t(bias.strides[0]) : 0;
    RowShape shape = row_shape(lowering.device(), params.x.cols);
    check_row_length(params.x.cols, shape.threads);
    Array dense = dense_output(lowering, out);
    params.out_offset = uint32_t(dense.offset);
    const Array &w = weight ? weight : x;
    const Array &b = bias ? bias : x;
    const uint32_t has = (weight ? LAYER_NORM_WEIGHT : 0) | (bias ? LAYER_NORM_BIAS : 0);
    lowering.dispatch(spec::layer_norm{.threads = shape.threads,
                                       .x_dtype = x.dtype,
                                       .w_dtype = w.dtype,
                                       .b_dtype = b.dtype,
                                       .y_dtype = out.dtype,
                                       .has = has,
                                       .items = shape.items,
                                       .quads = row_quads(lowering.device(), params.x, {&weight, &bias, &dense})},
                      {.x = {x, KPX_READ}, .w = {w, KPX_READ}, .b = {b, KPX_READ}, .y = {dense, KPX_WRITE}}, params,
                      grid_1d(lowering.device(), params.x.rows));
    store_output(lowering, dense, out);
}

} // namespace kpx
