// Arrays: w, scales, biases?, indices, out.
#include "ops/affine.hpp"

namespace kpx {

Support lower_quantized_gather(Lowering &lowering, const OpCall &call) {
    const auto *op = call.as<QuantizedGatherOp>();
    if (op == nullptr || call.n != 5) {
        return unsupported("quantized_gather takes 5 arrays");
    }
    const Array &w = call.arrays[0], &scales = call.arrays[1], &out = call.arrays[4];
    const Array &biases = bound_biases(scales, call.arrays[2]);
    Array indices = call.arrays[3];
    if (Support s = check_operands(lowering, {&w, &scales, &biases, &indices, &out}); !s.ok()) {
        return s;
    }
    if (!indices || !is_integer(indices.dtype) || !out || !is_float(out.dtype) || out.rank != indices.rank + 1) {
        return unsupported("indices must be int32 or uint32, out floats of one axis more");
    }
    if (Support s = check_affine(w, scales, call.arrays[2], op->mode, op->bits, op->group_size, out.dim(-1)); !s.ok()) {
        return s;
    }
    if (w.rank != 2) {
        return unsupported("w of rank %u is not a matrix", w.rank);
    }
    if (out.size() == 0) {
        return supported();
    }
    Axes axes = collapse({&indices});
    if (axes.rank > MAX_DIMS) {
        indices = contiguous(lowering, indices);
        axes = collapse({&indices});
    }
    const Array dense = dense_output(lowering, out);
    QuantizedGatherParams p{};
    p.n = uint32_t(out.size());
    p.cols = uint32_t(out.dim(-1));
    p.vocabulary = uint32_t(w.dim(0));
    p.group_shift = group_shift(op->group_size);
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
    lowering.dispatch("quantized_gather",
                      {ELEMENT_THREADS, scales.dtype, biases.dtype, op->bits, indices.dtype, dense.dtype},
                      {{w, KPX_READ}, {scales, KPX_READ}, {biases, KPX_READ}, {indices, KPX_READ}, {dense, KPX_WRITE}},
                      p, grid_elements(lowering.device(), p.n));
    store_output(lowering, dense, out);
    return supported();
}

} // namespace kpx
