#include "ops/lowering_util.hpp"

namespace kpx {

static bool gives_bool(uint32_t kind) {
    return kind >= BINARY_EQUAL && kind <= BINARY_OR;
}
static bool is_bitwise(uint32_t kind) {
    return kind >= BINARY_BIT_AND && kind <= BINARY_BIT_XOR;
}

// Why the kernel does not compute this kind on this dtype, or null.
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

// Arrays: a, b, out. One shape, any layouts; a and b of one dtype, out the same
// or bool for comparisons and logic.
Support lower_binary(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<BinaryOp>(call, 3);
    if (!checked.ok())
        return checked;
    const Array &a = call.arrays[0], &b = call.arrays[1], &out = call.arrays[2];
    uint32_t kind = call.as<BinaryOp>()->kind;
    if (const char *why = refusal(kind, a.dtype))
        return unsupported("kind %u of %s: %s", kind, dtype_name(a.dtype), why);
    if (a.dtype != b.dtype || out.dtype != (gives_bool(kind) ? uint32_t(DT_BOOL) : a.dtype))
        return unsupported("dtypes %s, %s to %s", dtype_name(a.dtype), dtype_name(b.dtype), dtype_name(out.dtype));
    if (!same_shape(a, b) || !same_shape(a, out))
        return unsupported("operands differ in shape");
    checked = check_operands(lowering, {&a, &b, &out});
    if (!checked.ok())
        return checked;
    Walk3 walk(lowering, a, b, out, true);
    if (walk.params.n > 0)
        lowering.dispatch("binary", {ELEMENT_THREADS, a.dtype, b.dtype, out.dtype, walk.rank, kind, walk.quads},
                          {{walk.a, KPX_READ}, {walk.b, KPX_READ}, {walk.out, KPX_WRITE}}, walk.params,
                          grid_elements(lowering.device(), walk.params.n));
    store_output(lowering, walk.out, out);
    return supported();
}

} // namespace kpx
