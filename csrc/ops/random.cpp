#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: state (uint32), out, which is contiguous.
Support lower_random(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<RandomOp>(call, 2);
    if (!checked.ok())
        return checked;
    const Array &state = call.arrays[0], &out = call.arrays[1];
    const auto *op = call.as<RandomOp>();
    if (op->kind > RANDOM_NORMAL)
        return unsupported("kind %u is unknown", op->kind);
    if (state.dtype != DT_UINT32 || state.rank != 1 || state.dim(0) != RANDOM_WORDS)
        return unsupported("state must be uint32 [%d]", RANDOM_WORDS);
    if (!is_float(out.dtype) || !out.contiguous())
        return unsupported("out must be contiguous floats, not %s", dtype_name(out.dtype));
    checked = check_operands(lowering, {&state, &out});
    if (!checked.ok() || out.size() == 0)
        return checked;
    RandomParams params{};
    params.n = uint32_t(out.size());
    params.state_offset = uint32_t(state.offset);
    params.state_stride = uint32_t(state.stride(0));
    params.out_offset = uint32_t(out.offset);
    params.first = op->first;
    params.scale = op->scale;
    params.limit = op->limit;
    lowering.dispatch("random", {ELEMENT_THREADS, out.dtype, op->kind}, {{state, KPX_READ}, {out, KPX_WRITE}}, params,
                      grid_elements(lowering.device(), (out.size() + 3) / 4));
    return supported();
}

} // namespace kpx
