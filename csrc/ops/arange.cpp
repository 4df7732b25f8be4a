#include "ops/lowering_util.hpp"

namespace kpx {

void lower_arange(Lowering &lowering, const ArangeCall &call) {
    const Array &out = call.out();
    if (out.rank != 1 || out.dtype == DT_BOOL)
        invalid("out is not a vector of numbers");
    check_operands({&out});
    if (out.size() == 0)
        return;
    const ArangeOp &op = call.op();
    ArangeParams params{uint32_t(out.size()), op.start, op.step, uint32_t(out.offset), uint32_t(out.strides[0])};
    lowering.dispatch(spec::arange{.threads = element_threads(lowering.device()), .y_dtype = out.dtype},
                      {.y = {out, KPX_WRITE}}, params, grid_elements(lowering.device(), params.n));
}

} // namespace kpx
