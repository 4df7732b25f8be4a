#include "ops/lowering_util.hpp"

namespace kpx {

void lower_slice_update(Lowering &lowering, const SliceUpdateCall &call) {
    const Array &dst = call.dst(), &update = call.update(), &start = call.start();
    if (!part_fits(dst, update))
        invalid("the update does not fit in shape or dtype");
    check_start(start, dst);
    check_operands({&dst, &update, &start});
    if (update.size() == 0)
        return;
    if (start && dst.rank > 0)
        copy_part(lowering, update, dst, start, false);
    else
        copy_array(lowering, update, part_of(dst, update, call.op().start));
}

} // namespace kpx
