#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: x, out. One shape, any layouts and dtypes.
Support lower_cast(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<CastOp>(call, 2);
    if (!checked.ok())
        return checked;
    const Array &x = call.arrays[0], &out = call.arrays[1];
    if (!same_shape(x, out))
        return unsupported("operands differ in shape");
    checked = check_operands(lowering, {&x, &out});
    if (!checked.ok())
        return checked;
    if (x.dtype == out.dtype) {
        copy_array(lowering, x, out);
        return supported();
    }
    Walk2 walk(x, out);
    if (walk.params.n > 0)
        lowering.dispatch("cast", {ELEMENT_THREADS, x.dtype, out.dtype, walk.rank}, {{x, KPX_READ}, {out, KPX_WRITE}},
                          walk.params, grid_elements(lowering.device(), walk.params.n));
    return supported();
}

} // namespace kpx
