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

void lower_where(Lowering &lowering, const WhereCall &call) {
    Array c = call.condition(), a = call.a(), b = call.b();
    const Array &out = call.out();
    if (c.dtype != DT_BOOL || a.dtype != out.dtype || b.dtype != out.dtype || !same_shape(c, out) ||
        !same_shape(a, out) || !same_shape(b, out))
        invalid("operands differ in shape or dtype");
    check_operands({&c, &a, &b, &out});
    if (out.size() == 0)
        return;
    Array dense = out;
    Axes axes = collapse({&c, &a, &b, &dense});
    if (axes.rank > MAX_DIMS) {
        c = contiguous(lowering, c);
        a = contiguous(lowering, a);
        b = contiguous(lowering, b);
        dense = dense_output(lowering, out);
        axes = collapse({&c, &a, &b, &dense});
    }
    const uint32_t quads = make_quads(axes, 4);
    const Walk4Params params = walk_of(axes);
    const uint32_t batch = batch_of(lowering.device(), params.n);
    lowering.dispatch(spec::where{.threads = element_threads(lowering.device()),
                                  .c_dtype = c.dtype,
                                  .a_dtype = a.dtype,
                                  .b_dtype = b.dtype,
                                  .y_dtype = dense.dtype,
                                  .rank = std::max(axes.rank, 1u),
                                  .quads = quads,
                                  .batch = batch},
                      {.c = {c, KPX_READ}, .a = {a, KPX_READ}, .b = {b, KPX_READ}, .y = {dense, KPX_WRITE}}, params,
                      grid_elements(lowering.device(), params.n, batch));
    store_output(lowering, dense, out);
}

} // namespace kpx
