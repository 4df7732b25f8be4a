#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

// The part of dst that an update starting at `start`, clamped, overwrites; without a start, at dst's first element.
static Array window(const Array &dst, const Array &update, const int32_t *start) {
    Array part = dst;
    for (uint32_t d = 0; d < dst.rank; d++) {
        int64_t room = dst.shape[d] - update.shape[d];
        if (start)
            part.offset += std::clamp<int64_t>(start[d], 0, room) * dst.strides[d];
        part.shape[d] = update.shape[d];
    }
    return part;
}

static bool fits(const Array &dst, const Array &update) {
    bool ok = dst.rank == update.rank && dst.dtype == update.dtype;
    for (uint32_t d = 0; ok && d < dst.rank; d++)
        ok = update.shape[d] <= dst.shape[d];
    return ok;
}

// One launch per index of the axes beyond the four that the kernel walks.
static void dispatch_device_start(Lowering &lowering, const Array &dst, const Array &update, const Array &start) {
    SliceUpdateParams params{};
    for (uint32_t d = 0; d < dst.rank; d++) {
        params.room[d] = uint32_t(dst.shape[d] - update.shape[d]);
        params.dst_strides[d] = uint32_t(dst.strides[d]);
    }
    params.start_offset = uint32_t(start.offset);
    params.start_stride = uint32_t(start.strides[0]);
    Array part = window(dst, update, nullptr);
    for_each_outer(collapse({&update, &part}), 4, [&](const Axes &axes) {
        params.n = uint32_t(axes.size());
        uint32_t shape[4];
        fill_back(shape, 4, axes.shape, axes.rank, 1);
        std::copy(shape + 1, shape + 4, params.shape);
        fill_back(params.in_strides, 4, axes.strides[0], axes.rank, 0);
        fill_back(params.out_strides, 4, axes.strides[1], axes.rank, 0);
        params.in_offset = uint32_t(axes.offset[0]);
        params.out_offset = uint32_t(axes.offset[1]);
        lowering.dispatch("slice_update", {ELEMENT_THREADS, update.dtype, dst.dtype, dst.rank},
                          {{update, KPX_READ}, {start, KPX_READ}, {dst, KPX_WRITE}}, params,
                          grid_elements(lowering.device(), params.n));
    });
}

// Arrays: dst (updated in place), update, start? int32 [rank]. One rank and
// dtype, any layouts; the elements of update and dst do not overlap.
Support lower_slice_update(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<SliceUpdateOp>(call, 3, 1u << 2);
    if (!checked.ok())
        return checked;
    const Array &dst = call.arrays[0], &update = call.arrays[1], &start = call.arrays[2];
    if (!fits(dst, update))
        return unsupported("the update does not fit in shape or dtype");
    if (start && (start.dtype != DT_INT32 || start.rank != 1 || start.shape[0] != int64_t(dst.rank)))
        return unsupported("start is not int32 of one element per axis");
    checked = check_operands(lowering, {&dst, &update, &start});
    if (!checked.ok() || update.size() == 0)
        return checked;
    if (start && dst.rank > 0)
        dispatch_device_start(lowering, dst, update, start);
    else
        copy_array(lowering, update, window(dst, update, call.as<SliceUpdateOp>()->start));
    return supported();
}

} // namespace kpx
