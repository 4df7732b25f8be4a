#include "ops/lowering_util.hpp"

namespace kpx {

// Arrays: dst (updated in place), update, start? int32 [rank]. One rank and
// dtype, any layouts; the elements of update and dst do not overlap.
Support lower_slice_update(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<SliceUpdateOp>(call, 3, 1u << 2);
    if (!checked.ok())
        return checked;
    const Array &dst = call.arrays[0], &update = call.arrays[1], &start = call.arrays[2];
    if (!part_fits(dst, update))
        return unsupported("the update does not fit in shape or dtype");
    if (checked = check_start(start, dst); !checked.ok())
        return checked;
    checked = check_operands(lowering, {&dst, &update, &start});
    if (!checked.ok() || update.size() == 0)
        return checked;
    if (start && dst.rank > 0)
        copy_part(lowering, update, dst, start, false);
    else
        copy_array(lowering, update, part_of(dst, update, call.as<SliceUpdateOp>()->start));
    return supported();
}

} // namespace kpx
