#include "ops/lowering_util.hpp"

namespace kpx {

// Whether x fits into out, with the same length along every axis but one.
static bool matches(const Array &x, const Array &out, uint32_t axis) {
    bool ok = x.rank == out.rank && x.dtype == out.dtype;
    for (uint32_t d = 0; ok && d < out.rank; d++)
        ok = d == axis || x.shape[d] == out.shape[d];
    return ok;
}

void lower_concat(Lowering &lowering, const ConcatCall &call) {
    const Array &out = call.out();
    uint32_t axis = call.op().axis;
    int64_t length = 0;
    for (uint32_t k = 0; k < call.x_count(); k++) {
        const Array &x = call.x(k);
        if (axis >= out.rank || !matches(x, out, axis))
            invalid("operands do not match in shape or dtype");
        check_operands({&x, &out});
        length += x.shape[axis];
    }
    if (length != out.shape[axis])
        invalid("out is not as long as its parts");
    Array part = out;
    for (uint32_t k = 0; k < call.x_count(); k++) {
        part.shape[axis] = call.x(k).shape[axis];
        copy_array(lowering, call.x(k), part);
        part.offset += part.shape[axis] * part.strides[axis];
    }
}

} // namespace kpx
