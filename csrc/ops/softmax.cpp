#include "ops/lowering_util.hpp"

namespace kpx {

void lower_softmax(Lowering &lowering, const SoftmaxCall &call) {
    Array x = call.x();
    const Array &out = call.out();
    if (!is_float(x.dtype) || !is_float(out.dtype))
        invalid("dtypes {} to {}", dtype_name(x.dtype), dtype_name(out.dtype));
    if (!same_shape(x, out))
        invalid("operands differ in shape");
    check_operands({&x, &out});
    if (x.size() == 0)
        return;
    SoftmaxParams params{};
    params.x = rows_of(lowering, x);
    RowShape shape = row_shape(lowering.device(), params.x.cols);
    check_row_length(params.x.cols, shape.threads);
    Array dense = dense_output(lowering, out);
    params.out_offset = uint32_t(dense.offset);
    lowering.dispatch(spec::softmax{.threads = shape.threads,
                                    .x_dtype = x.dtype,
                                    .y_dtype = out.dtype,
                                    .items = shape.items,
                                    .quads = row_quads(lowering.device(), params.x, {&dense})},
                      {.x = {x, KPX_READ}, .y = {dense, KPX_WRITE}}, params, grid_1d(lowering.device(), params.x.rows));
    store_output(lowering, dense, out);
}

} // namespace kpx
