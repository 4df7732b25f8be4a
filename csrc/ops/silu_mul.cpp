#include "ops/lowering_util.hpp"

namespace kpx {

void lower_silu_mul(Lowering &lowering, const SiLUMulCall &call) {
    const Array &gate = call.gate(), &up = call.up(), &out = call.out();
    if (!is_float(gate.dtype) || !is_float(up.dtype) || !is_float(out.dtype))
        invalid("dtypes {}, {} to {}", dtype_name(gate.dtype), dtype_name(up.dtype), dtype_name(out.dtype));
    if (!same_shape(gate, up) || !same_shape(gate, out))
        invalid("operands differ in shape");
    check_operands({&gate, &up, &out});
    Walk3 walk(lowering, gate, up, out, true);
    const uint32_t batch = batch_of(lowering.device(), walk.params.n);
    if (walk.params.n > 0)
        lowering.dispatch(spec::silu_mul{.threads = element_threads(lowering.device()),
                                         .gate_dtype = gate.dtype,
                                         .up_dtype = up.dtype,
                                         .y_dtype = out.dtype,
                                         .rank = walk.rank,
                                         .quads = walk.quads,
                                         .batch = batch},
                          {.gate = {walk.a, KPX_READ}, .up = {walk.b, KPX_READ}, .y = {walk.out, KPX_WRITE}},
                          walk.params, grid_elements(lowering.device(), walk.params.n, batch));
    store_output(lowering, walk.out, out);
}

} // namespace kpx
