#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: out [n], any layout, any dtype but bool.
Support lower_arange(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<ArangeOp>(call, 1);
    if (!checked.ok())
        return checked;
    const Array &out = call.arrays[0];
    if (out.rank != 1 || out.dtype == DT_BOOL)
        return unsupported("out is no vector of numbers");
    checked = check_operands(lowering, {&out});
    if (!checked.ok() || out.size() == 0)
        return checked;
    const ArangeOp &op = *call.as<ArangeOp>();
    ArangeParams params{uint32_t(out.size()), op.start, op.step, uint32_t(out.offset), uint32_t(out.strides[0])};
    lowering.dispatch("arange", {ELEMENT_THREADS, out.dtype}, {{out, KPX_WRITE}}, params,
                      grid_elements(lowering.device(), params.n));
    return supported();
}

} // namespace kpx
