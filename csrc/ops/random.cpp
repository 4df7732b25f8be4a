#include "ops/lowering_util.hpp"

namespace kpx {

void lower_random(Lowering &lowering, const RandomCall &call) {
    const Array &state = call.state(), &out = call.out();
    const auto &op = call.op();
    if (op.kind > RANDOM_NORMAL)
        invalid("kind {} is unknown", op.kind);
    if (state.dtype != DT_UINT32 || state.rank != 1 || state.dim(0) != RANDOM_STATE_SIZE)
        invalid("state must be uint32 [{}]", RANDOM_STATE_SIZE);
    if (!is_float(out.dtype) || !out.contiguous())
        invalid("out must be contiguous floats, not {}", dtype_name(out.dtype));
    check_operands({&state, &out});
    if (out.size() == 0)
        return;
    RandomParams params{};
    params.n = uint32_t(out.size());
    params.state_offset = uint32_t(state.offset);
    params.state_stride = uint32_t(state.stride(0));
    params.out_offset = uint32_t(out.offset);
    params.first = op.first;
    params.scale = op.scale;
    params.limit = op.limit;
    lowering.dispatch(
        spec::random{.threads = element_threads(lowering.device()), .y_dtype = out.dtype, .kind = op.kind},
        {.state = {state, KPX_READ}, .y = {out, KPX_WRITE}}, params,
        grid_elements(lowering.device(), (out.size() + 3) / 4));
}

} // namespace kpx
