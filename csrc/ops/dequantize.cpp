#include "ops/affine.hpp"

namespace kpx {

static void fill_strides(uint32_t (&to)[4], const Axes &axes, uint32_t which, const Array &array) {
    fill(to, 3, axes.strides[which], axes.rank, 0);
    to[3] = uint32_t(array.stride(-1));
}

void lower_dequantize(Lowering &lowering, const DequantizeCall &call) {
    const auto &op = call.op();
    Array w = call.w(), scales = call.scales(), biases = bound_biases(scales, call.biases());
    const Array &out = call.out();
    check_operands({&w, &scales, &biases, &out});
    if (!out || out.rank == 0 || !is_float(out.dtype) || out.rank != w.rank) {
        invalid("out must be a float array of the rank of w");
    }
    check_affine(w, scales, call.biases(), op.mode, op.bits, op.group_size, out.dim(-1));
    if (!same_leading(w, out, w.rank - 1)) {
        invalid("w and out differ in their leading axes");
    }
    if (out.size() == 0) {
        return;
    }
    Axes axes = collapse({&w, &scales, &biases}, int(w.rank) - 1);
    if (axes.rank > 3) {
        w = contiguous(lowering, w);
        scales = contiguous(lowering, scales);
        biases = contiguous(lowering, biases);
        axes = collapse({&w, &scales, &biases}, int(w.rank) - 1);
    }
    const Array dense = dense_output(lowering, out);
    DequantizeParams p{};
    p.n = uint32_t(out.size() / 4); // rows are whole groups
    const uint32_t batch = batch_of(lowering.device(), p.n);
    p.cols = uint32_t(out.dim(-1));
    p.group_shift = group_shift(op.group_size);
    fill(p.shape, 3, axes.shape, axes.rank, 1);
    fill_strides(p.w_strides, axes, 0, w);
    fill_strides(p.s_strides, axes, 1, scales);
    fill_strides(p.b_strides, axes, 2, biases);
    p.w_offset = uint32_t(w.offset);
    p.s_offset = uint32_t(scales.offset);
    p.b_offset = uint32_t(biases.offset);
    p.out_offset = uint32_t(dense.offset);
    lowering.dispatch(
        spec::dequantize{.threads = element_threads(lowering.device()),
                         .scales_dtype = scales.dtype,
                         .biases_dtype = biases.dtype,
                         .bits = op.bits,
                         .y_dtype = dense.dtype,
                         .batch = batch},
        {.w = {w, KPX_READ}, .scales = {scales, KPX_READ}, .biases = {biases, KPX_READ}, .y = {dense, KPX_WRITE}}, p,
        grid_elements(lowering.device(), p.n, batch));
    store_output(lowering, dense, out);
}

} // namespace kpx
