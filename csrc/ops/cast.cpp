#include "ops/lowering_util.hpp"

namespace kpx {

void lower_cast(Lowering &lowering, const CastCall &call) {
    const Array &x = call.x(), &out = call.out();
    if (!same_shape(x, out))
        invalid("operands differ in shape");
    check_operands({&x, &out});
    if (x.dtype == out.dtype) {
        copy_array(lowering, x, out);
        return;
    }
    Axes axes = collapse({&x, &out});
    const uint32_t quads = make_quads(axes, 2);
    const Walk2 walk(axes);
    const uint32_t batch = batch_of(lowering.device(), walk.params.n);
    if (walk.params.n > 0)
        lowering.dispatch(spec::cast{.threads = element_threads(lowering.device()),
                                     .x_dtype = x.dtype,
                                     .y_dtype = out.dtype,
                                     .rank = walk.rank,
                                     .quads = quads,
                                     .batch = batch},
                          {.x = {x, KPX_READ}, .y = {out, KPX_WRITE}}, walk.params,
                          grid_elements(lowering.device(), walk.params.n, batch));
}

} // namespace kpx
