#include "ops/lowering_util.hpp"

namespace kpx {

// The reason why the kernel does not compute this kind for this dtype, or null.
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

void lower_unary(Lowering &lowering, const UnaryCall &call) {
    const Array &x = call.x(), &out = call.out();
    uint32_t kind = call.op().kind;
    if (const char *reason = refusal(kind, x.dtype))
        invalid("kind {} of {}: {}", kind, dtype_name(x.dtype), reason);
    if (!same_shape(x, out) || out.dtype != (kind == UNARY_NOT ? uint32_t(DT_BOOL) : x.dtype))
        invalid("out does not match in shape or dtype");
    check_operands({&x, &out});
    Axes axes = collapse({&x, &out});
    const uint32_t quads = make_quads(axes, 2);
    Walk2 walk(axes);
    const uint32_t batch = batch_of(lowering.device(), walk.params.n);
    if (walk.params.n > 0)
        lowering.dispatch(spec::unary{.threads = element_threads(lowering.device()),
                                      .x_dtype = x.dtype,
                                      .y_dtype = out.dtype,
                                      .rank = walk.rank,
                                      .kind = kind,
                                      .quads = quads,
                                      .batch = batch},
                          {.x = {x, KPX_READ}, .y = {out, KPX_WRITE}}, walk.params,
                          grid_elements(lowering.device(), walk.params.n, batch));
}

} // namespace kpx
