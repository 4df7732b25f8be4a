#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

// x's axes before and after the gathered one.
struct Sides {
    Axes pre, post;
};

static Sides sides_of(const Array &x, uint32_t axis) {
    Array after = x;
    after.rank = x.rank - axis - 1;
    after.offset = 0;
    std::copy(x.shape.begin() + axis + 1, x.shape.end(), after.shape.begin());
    std::copy(x.strides.begin() + axis + 1, x.strides.end(), after.strides.begin());
    return {collapse({&x}, int(axis)), collapse({&after})};
}

// Whether out is [pre…, indices…, post…].
static bool out_matches(const Array &x, const Array &indices, const Array &out, uint32_t axis) {
    if (axis >= x.rank || out.rank != x.rank - 1 + indices.rank)
        return false;
    const int64_t *o = out.shape.data(), *s = x.shape.data(), *i = indices.shape.data();
    return std::equal(s, s + axis, o) && std::equal(i, i + indices.rank, o + axis) &&
           std::equal(s + axis + 1, s + x.rank, o + axis + indices.rank);
}

// The strides of one group of at most three axes, right-aligned as the kernel reads them.
static void place(const Axes &axes, uint32_t shape[3], uint32_t strides[3]) {
    fill_back(shape, 3, axes.shape, axes.rank, 1);
    fill_back(strides, 3, axes.strides[0], axes.rank, 0);
}

// Makes the unit that is moved four words instead of an element, if the axes after the gathered one consist of
// whole, contiguous units.
static bool widen_rows(GatherParams &params, const Axes &post, uint32_t bytes) {
    const uint32_t unit = 16 / bytes;
    bool whole = post.rank == 1 && post.strides[0][0] == 1 && params.post_size % unit == 0 &&
                 params.axis_stride % unit == 0 && params.x_offset % unit == 0 && params.out_offset % unit == 0;
    for (uint32_t d = 0; d < 3; d++)
        whole = whole && params.pre_strides[d] % unit == 0;
    if (!whole)
        return false;
    params.n /= unit;
    params.post_size /= unit;
    params.axis_stride /= unit;
    params.x_offset /= unit;
    params.out_offset /= unit;
    for (uint32_t d = 0; d < 3; d++)
        params.pre_strides[d] /= unit;
    return true;
}

static GatherParams gather_params(const Array &x, const Array &indices, uint32_t axis, const Sides &sides,
                                  const Axes &places, const Array &out) {
    GatherParams params{};
    params.n = uint32_t(out.size());
    params.post_size = uint32_t(sides.post.size());
    params.index_count = uint32_t(places.size());
    params.axis_length = uint32_t(x.shape[axis]);
    params.axis_stride = uint32_t(x.strides[axis]);
    place(sides.pre, params.pre_shape, params.pre_strides);
    place(sides.post, params.post_shape, params.post_strides);
    place(places, params.index_shape, params.index_strides);
    params.x_offset = uint32_t(x.offset);
    params.index_offset = uint32_t(indices.offset);
    params.out_offset = uint32_t(out.offset);
    return params;
}

void lower_gather(Lowering &lowering, const GatherCall &call) {
    Array x = call.x(), indices = call.indices();
    const Array &out = call.out();
    uint32_t axis = call.op().axis;
    if (x.dtype != out.dtype || !is_index_dtype(indices.dtype) || !out_matches(x, indices, out, axis))
        invalid("operands do not match in shape or dtype");
    check_operands({&x, &indices, &out});
    if (out.size() == 0)
        return;
    if (x.size() == 0) { // every index is out of range: nothing is read, but something must be bound
        Array none = indices;
        none.dtype = x.dtype;
        none.rank = x.rank;
        none.shape = x.shape;
        none.strides = {};
        x = none;
    }
    Sides sides = sides_of(x, axis);
    if (sides.pre.rank > 3 || sides.post.rank > 3) {
        x = contiguous(lowering, x);
        sides = sides_of(x, axis);
    }
    Axes places = collapse({&indices});
    if (places.rank > 3) {
        indices = contiguous(lowering, indices);
        places = collapse({&indices});
    }
    Array dense = dense_output(lowering, out);
    GatherParams params = gather_params(x, indices, axis, sides, places, dense);
    const bool rows = widen_rows(params, sides.post, x.element_size());
    const bool plain = sides.pre.rank == 0 && (places.rank == 0 || (places.rank == 1 && places.strides[0][0] == 1));
    const uint32_t batch = batch_of(lowering.device(), params.n);
    lowering.dispatch(spec::gather{.threads = element_threads(lowering.device()),
                                   .x_dtype = x.dtype,
                                   .y_dtype = out.dtype,
                                   .signed_indices = indices.dtype == DT_INT32 ? 1u : 0u,
                                   .rows = rows,
                                   .plain = plain,
                                   .batch = batch},
                      {.x = {x, KPX_READ}, .indices = {indices, KPX_READ}, .y = {dense, KPX_WRITE}}, params,
                      grid_elements(lowering.device(), params.n, batch));
    store_output(lowering, dense, out);
}

} // namespace kpx
