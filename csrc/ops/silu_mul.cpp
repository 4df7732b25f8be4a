#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: gate, up, out. One shape and floating-point dtype, any layouts.
Support lower_silu_mul(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<SiLUMulOp>(call, 3);
    if (!checked.ok())
        return checked;
    const Array &gate = call.arrays[0], &up = call.arrays[1], &out = call.arrays[2];
    if (!is_float(gate.dtype) || !is_float(up.dtype) || !is_float(out.dtype))
        return unsupported("dtypes %s, %s to %s", dtype_name(gate.dtype), dtype_name(up.dtype), dtype_name(out.dtype));
    if (!same_shape(gate, up) || !same_shape(gate, out))
        return unsupported("operands differ in shape");
    checked = check_operands(lowering, {&gate, &up, &out});
    if (!checked.ok())
        return checked;
    Walk3 walk(lowering, gate, up, out);
    if (walk.params.n > 0)
        lowering.dispatch("silu_mul", {ELEMENT_THREADS, gate.dtype, up.dtype, out.dtype, walk.rank},
                          {{walk.a, KPX_READ}, {walk.b, KPX_READ}, {walk.out, KPX_WRITE}}, walk.params,
                          grid_elements(lowering.device(), walk.params.n));
    store_output(lowering, walk.out, out);
    return supported();
}

} // namespace kpx
