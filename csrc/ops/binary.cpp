#include "ops/lowering_util.hpp"

namespace kpx {

static bool gives_bool(uint32_t kind) {
    return kind >= BINARY_EQUAL && kind <= BINARY_OR;
}
static bool is_bitwise(uint32_t kind) {
    return kind >= BINARY_BIT_AND && kind <= BINARY_BIT_XOR;
}

// The reason why the kernel does not compute this kind for this dtype, or null.
static const char *refusal(uint32_t kind, uint32_t dtype) {
    if (kind > BINARY_SHIFT_RIGHT)
        return "unknown kind";
    if (gives_bool(kind))
        return nullptr;
    if (is_float(dtype))
        return kind >= BINARY_BIT_AND ? "bit operations need integer elements" : nullptr;
    if (dtype == DT_BOOL && !is_bitwise(kind) && kind != BINARY_MAX && kind != BINARY_MIN)
        return "no arithmetic on bools";
    return nullptr;
}

void lower_binary(Lowering &lowering, const BinaryCall &call) {
    const Array &a = call.a(), &b = call.b(), &out = call.out();
    uint32_t kind = call.op().kind;
    if (const char *reason = refusal(kind, a.dtype))
        invalid("kind {} of {}: {}", kind, dtype_name(a.dtype), reason);
    if (a.dtype != b.dtype || out.dtype != (gives_bool(kind) ? uint32_t(DT_BOOL) : a.dtype))
        invalid("dtypes {}, {} to {}", dtype_name(a.dtype), dtype_name(b.dtype), dtype_name(out.dtype));
    if (!same_shape(a, b) || !same_shape(a, out))
        invalid("operands differ in shape");
    check_operands({&a, &b, &out});
    Walk3 walk(lowering, a, b, out, true);
    const uint32_t batch = batch_of(lowering.device(), walk.params.n);
    if (walk.params.n > 0)
        lowering.dispatch(spec::binary{.threads = element_threads(lowering.device()),
                                       .a_dtype = a.dtype,
                                       .b_dtype = b.dtype,
                                       .y_dtype = out.dtype,
                                       .rank = walk.rank,
                                       .kind = kind,
                                       .quads = walk.quads,
                                       .batch = batch},
                          {.a = {walk.a, KPX_READ}, .b = {walk.b, KPX_READ}, .y = {walk.out, KPX_WRITE}}, walk.params,
                          grid_elements(lowering.device(), walk.params.n, batch));
    store_output(lowering, walk.out, out);
}

} // namespace kpx
