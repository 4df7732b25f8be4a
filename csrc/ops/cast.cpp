#include "ops/lowering_util.hpp"

namespace kpx {

void lower_cast(Lowering &lowering, const CastCall &call) {
    const Array &x = call.x(), &out = call.out();
    if (!same_shape(x, out))
        invalid("operands differ in shape");
    check_operands(lowering, {&x, &out});
    if (x.dtype == out.dtype) {
        copy_array(lowering, x, out);
        return;
    }
    Walk2 walk(x, out);
    if (walk.params.n > 0)
        lowering.dispatch(
            spec::cast{.threads = ELEMENT_THREADS, .x_dtype = x.dtype, .y_dtype = out.dtype, .rank = walk.rank},
            {{x, KPX_READ}, {out, KPX_WRITE}}, walk.params, grid_elements(lowering.device(), walk.params.n));
}

} // namespace kpx
