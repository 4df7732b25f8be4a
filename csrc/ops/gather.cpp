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

// The places of one group of at most three axes, right-aligned as the kernel reads them.
static void place(const Axes &axes, uint32_t shape[3], uint32_t strides[3]) {
    fill_back(shape, 3, axes.shape, axes.rank, 1);
    fill_back(strides, 3, axes.strides[0], axes.rank, 0);
}

void lower_gather(Lowering &lowering, const GatherCall &call) {
    Array x = call.x(), indices = call.indices();
    const Array &out = call.out();
    uint32_t axis = call.op().axis;
    if (x.dtype != out.dtype || !is_integer(indices.dtype) || !out_matches(x, indices, out, axis))
        invalid("operands do not match in shape or dtype");
    check_operands(lowering, {&x, &indices, &out});
    if (out.size() == 0)
        return;
    if (x.size() == 0) { // every index is outside: nothing is read, but something must be bound
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
    params.out_offset = uint32_t(dense.offset);
    lowering.dispatch(spec::gather{.threads = ELEMENT_THREADS,
                                   .x_dtype = x.dtype,
                                   .y_dtype = out.dtype,
                                   .signed_indices = indices.dtype == DT_INT32 ? 1u : 0u},
                      {{x, KPX_READ}, {indices, KPX_READ}, {dense, KPX_WRITE}}, params,
                      grid_elements(lowering.device(), params.n));
    store_output(lowering, dense, out);
}

} // namespace kpx
