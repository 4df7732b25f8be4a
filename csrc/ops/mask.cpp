#include "ops/lowering_util.hpp"

namespace kpx {

void lower_mask(Lowering &lowering, const MaskCall &call) {
    const Array &logits = call.logits(), &allowed = call.allowed();
    if (logits.dtype != DT_FLOAT32 || allowed.dtype != DT_UINT32)
        invalid("dtypes {} and {}", dtype_name(logits.dtype), dtype_name(allowed.dtype));
    if (logits.rank != 2 || allowed.rank != 2 || allowed.dim(0) != logits.dim(0) ||
        allowed.dim(1) != divide_up(logits.dim(1), 32))
        invalid("operands do not match in shape");
    check_operands({&logits, &allowed});
    if (logits.size() == 0)
        return;
    MaskParams p{};
    p.n = uint32_t(logits.size());
    p.cols = uint32_t(logits.dim(1));
    p.logits_offset = uint32_t(logits.offset);
    p.logits_row = uint32_t(logits.stride(0));
    p.logits_col = uint32_t(logits.stride(1));
    p.allowed_offset = uint32_t(allowed.offset);
    p.allowed_row = uint32_t(allowed.stride(0));
    p.allowed_col = uint32_t(allowed.stride(1));
    lowering.dispatch(spec::mask{.threads = element_threads(lowering.device())},
                      {.logits = {logits, KPX_READ_WRITE}, .allowed = {allowed, KPX_READ}}, p,
                      grid_elements(lowering.device(), p.n));
}

} // namespace kpx
