#include "ops/lowering_util.hpp"

namespace kpx {

// Whether x is a part of out that takes all of every axis but one.
static bool matches(const Array &x, const Array &out, uint32_t axis) {
    bool ok = x.rank == out.rank && x.dtype == out.dtype;
    for (uint32_t d = 0; ok && d < out.rank; d++)
        ok = d == axis || x.shape[d] == out.shape[d];
    return ok;
}

// Arrays: one or more x, out. Any layouts.
Support lower_concat(Lowering &lowering, const OpCall &call) {
    if (call.n < 2)
        return unsupported("%u arrays", call.n);
    Support checked = check_call<ConcatOp>(call, call.n);
    if (!checked.ok())
        return checked;
    const Array &out = call.arrays[call.n - 1];
    uint32_t axis = call.as<ConcatOp>()->axis;
    int64_t length = 0;
    for (uint32_t k = 0; k + 1 < call.n; k++) {
        const Array &x = call.arrays[k];
        if (axis >= out.rank || !matches(x, out, axis))
            return unsupported("operands do not match in shape or dtype");
        if (checked = check_operands(lowering, {&x, &out}); !checked.ok())
            return checked;
        length += x.shape[axis];
    }
    if (length != out.shape[axis])
        return unsupported("out is not as long as its parts");
    Array part = out;
    for (uint32_t k = 0; k + 1 < call.n; k++) {
        part.shape[axis] = call.arrays[k].shape[axis];
        copy_array(lowering, call.arrays[k], part);
        part.offset += part.shape[axis] * part.strides[axis];
    }
    return supported();
}

} // namespace kpx
