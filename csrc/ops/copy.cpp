#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: x, out. One shape and dtype, any layouts that do not overlap.
Support lower_copy(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<CopyOp>(call, 2);
    if (!checked.ok())
        return checked;
    const Array &x = call.arrays[0], &out = call.arrays[1];
    if (x.dtype != out.dtype || !same_shape(x, out))
        return unsupported("operands differ in shape or dtype");
    checked = check_operands(lowering, {&x, &out});
    if (checked.ok())
        copy_array(lowering, x, out);
    return checked;
}

} // namespace kpx
