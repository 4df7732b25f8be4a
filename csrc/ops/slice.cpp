#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

Array part_of(const Array &x, const Array &shape, const int32_t *start) {
    Array part = x;
    for (uint32_t d = 0; d < x.rank; d++) {
        int64_t room = x.shape[d] - shape.shape[d];
        if (start)
            part.offset += std::clamp<int64_t>(start[d], 0, room) * x.strides[d];
        part.shape[d] = shape.shape[d];
    }
    return part;
}

// Makes the shortest axes the outermost, apart from the last one, along which elements are neighbours.
static void put_short_axes_first(Axes &axes) {
    for (uint32_t d = 0; d + 2 < axes.rank; d++) {
        const auto shape = axes.shape.begin();
        const auto shortest = std::min_element(shape + d, shape + axes.rank - 1);
        for (auto &strides : axes.strides)
            std::swap(strides[d], strides[size_t(shortest - shape)]);
        std::swap(shape[d], *shortest);
    }
}

// One launch per index of the axes beyond the four that the kernel walks, so these are the shortest.
void copy_part(Lowering &lowering, const Array &from, const Array &to, const Array &start, bool of_from) {
    const Array &whole = of_from ? from : to, &shape = of_from ? to : from;
    SliceUpdateParams params{};
    for (uint32_t d = 0; d < whole.rank; d++) {
        params.room[d] = uint32_t(whole.shape[d] - shape.shape[d]);
        params.strides[d] = uint32_t(whole.strides[d]);
    }
    params.start_offset = uint32_t(start.offset);
    params.start_stride = uint32_t(start.strides[0]);
    const Array first = part_of(whole, shape, nullptr);
    Axes joint = of_from ? collapse({&first, &to}) : collapse({&from, &first});
    if (joint.rank > 4)
        put_short_axes_first(joint);
    for_each_outer(joint, 4, [&](const Axes &axes) {
        params.n = uint32_t(axes.size());
        uint32_t lengths[4];
        fill_back(lengths, 4, axes.shape, axes.rank, 1);
        std::copy(lengths + 1, lengths + 4, params.shape);
        fill_back(params.in_strides, 4, axes.strides[0], axes.rank, 0);
        fill_back(params.out_strides, 4, axes.strides[1], axes.rank, 0);
        params.in_offset = uint32_t(axes.offset[0]);
        params.out_offset = uint32_t(axes.offset[1]);
        lowering.dispatch(spec::slice_update{.threads = element_threads(lowering.device()),
                                             .update_dtype = from.dtype,
                                             .dst_dtype = to.dtype,
                                             .start_rank = whole.rank,
                                             .from_start = of_from ? 1u : 0u},
                          {.update = {from, KPX_READ}, .start = {start, KPX_READ}, .dst = {to, KPX_WRITE}}, params,
                          grid_elements(lowering.device(), params.n));
    });
}

bool part_fits(const Array &x, const Array &part) {
    bool ok = x.rank == part.rank && x.dtype == part.dtype;
    for (uint32_t d = 0; ok && d < x.rank; d++)
        ok = part.shape[d] <= x.shape[d];
    return ok;
}

void check_start(const Array &start, const Array &x) {
    if (start && (start.dtype != DT_INT32 || start.rank != 1 || start.shape[0] != int64_t(x.rank)))
        invalid("start is not int32 of one element per axis");
}

void lower_slice(Lowering &lowering, const SliceCall &call) {
    const Array &x = call.x(), &start = call.start(), &out = call.out();
    if (!part_fits(x, out))
        invalid("out does not fit x in shape or dtype");
    check_start(start, x);
    check_operands({&x, &start, &out});
    if (out.size() == 0)
        return;
    if (start && x.rank > 0)
        copy_part(lowering, x, out, start, true);
    else
        copy_array(lowering, part_of(x, out, call.op().start), out);
}

} // namespace kpx
