#include <algorithm>

#include "ops/affine.hpp"

namespace kpx {

static void check_quantized_gather(const QuantizedGatherCall &call) {
    const auto &op = call.op();
    const Array &w = call.w(), &indices = call.indices(), &out = call.out();
    if (!indices || !is_index_dtype(indices.dtype) || !out || !is_float(out.dtype) || out.rank != indices.rank + 1) {
        invalid("indices must be int32 or uint32, and out must be floats with one more axis");
    }
    check_affine(w, call.scales(), call.biases(), op.mode, op.bits, op.group_size, out.dim(-1));
    if (w.rank != 2 || !same_leading(indices, out, indices.rank)) {
        invalid("w of rank {} is not a matrix, or indices do not have out's leading axes", w.rank);
    }
}

void lower_quantized_gather(Lowering &lowering, const QuantizedGatherCall &call) {
    const auto &op = call.op();
    const Array &w = call.w(), &scales = call.scales(), &out = call.out();
    const Array &biases = bound_biases(scales, call.biases());
    Array indices = call.indices();
    check_operands({&w, &scales, &biases, &indices, &out});
    check_quantized_gather(call);
    if (out.size() == 0) {
        return;
    }
    Axes axes = collapse({&indices});
    if (axes.rank > MAX_DIMS) {
        indices = contiguous(lowering, indices);
        axes = collapse({&indices});
    }
    const Array dense = dense_output(lowering, out);
    QuantizedGatherParams p{};
    p.n = uint32_t(out.size() / 4); // rows are whole groups
    const uint32_t batch = batch_of(lowering.device(), p.n);
    p.cols = uint32_t(out.dim(-1));
    p.vocabulary = uint32_t(w.dim(0));
    p.group_shift = group_shift(op.group_size);
    fill(p.shape, MAX_DIMS, axes.shape, axes.rank, 1);
    fill(p.i_strides, MAX_DIMS, axes.strides[0], axes.rank, 0);
    fill(p.w_strides, 2, w.strides, 2, 0);
    fill(p.s_strides, 2, scales.strides, 2, 0);
    fill(p.b_strides, 2, biases.strides, 2, 0);
    p.i_offset = uint32_t(indices.offset);
    p.w_offset = uint32_t(w.offset);
    p.s_offset = uint32_t(scales.offset);
    p.b_offset = uint32_t(biases.offset);
    p.out_offset = uint32_t(dense.offset);
    lowering.dispatch(spec::quantized_gather{.threads = element_threads(lowering.device()),
                                             .scales_dtype = scales.dtype,
                                             .biases_dtype = biases.dtype,
                                             .bits = op.bits,
                                             .index_dtype = indices.dtype,
                                             .y_dtype = dense.dtype,
                                             .rank = std::max(axes.rank, 1u),
                                             .batch = batch},
                      {.w = {w, KPX_READ},
                       .scales = {scales, KPX_READ},
                       .biases = {biases, KPX_READ},
                       .index = {indices, KPX_READ},
                       .y = {dense, KPX_WRITE}},
                      p, grid_elements(lowering.device(), p.n, batch));
    store_output(lowering, dense, out);
}

} // namespace kpx
