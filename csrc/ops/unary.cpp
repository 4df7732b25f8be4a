#include "ops/lowering_util.hpp"

namespace kpx {

// Why the kernel does not compute this kind on this dtype, or null.
static const char *refusal(uint32_t kind, uint32_t dtype) {
    if (kind > UNARY_NOT)
        return "unknown kind";
    if (is_float(dtype) || kind == UNARY_NOT)
        return nullptr;
    if (dtype == DT_BOOL)
        return "no arithmetic on bools";
    switch (kind) {
    case UNARY_NEG:
    case UNARY_ABS:
    case UNARY_SQUARE:
    case UNARY_FLOOR:
    case UNARY_CEIL:
    case UNARY_ROUND:
        return nullptr;
    }
    return "the function needs floating-point elements";
}

// Arrays: x, out. One shape, any layouts; out has x's dtype, or bool for Not.
Support lower_unary(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<UnaryOp>(call, 2);
    if (!checked.ok())
        return checked;
    const Array &x = call.arrays[0], &out = call.arrays[1];
    uint32_t kind = call.as<UnaryOp>()->kind;
    if (const char *why = refusal(kind, x.dtype))
        return unsupported("kind %u of %s: %s", kind, dtype_name(x.dtype), why);
    if (!same_shape(x, out) || out.dtype != (kind == UNARY_NOT ? uint32_t(DT_BOOL) : x.dtype))
        return unsupported("out does not match in shape or dtype");
    checked = check_operands(lowering, {&x, &out});
    if (!checked.ok())
        return checked;
    Axes axes = collapse({&x, &out});
    const uint32_t quads = make_quads(axes, 2);
    Walk2 walk(axes);
    if (walk.params.n > 0)
        lowering.dispatch("unary", {ELEMENT_THREADS, x.dtype, out.dtype, walk.rank, kind, quads},
                          {{x, KPX_READ}, {out, KPX_WRITE}}, walk.params,
                          grid_elements(lowering.device(), walk.params.n));
    return supported();
}

} // namespace kpx
