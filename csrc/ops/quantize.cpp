#include <algorithm>

#include "ops/affine.hpp"

namespace kpx {

// A thread has two where that leaves enough workgroups: a workgroup waits a few times, however many elements it has.
// CPU drivers take two from one full workgroup on, so that tests do, too.
static uint32_t quads_of_thread(const DeviceTraits &device, uint32_t elements, uint32_t threads) {
    const uint64_t workgroups = device.is_cpu ? 1 : 8 * uint64_t(std::max(1u, device.compute_units));
    return elements >= workgroups * threads * 8 ? 2 : 1;
}

void lower_quantize(Lowering &lowering, const QuantizeCall &call) {
    const auto &op = call.op();
    Array x = call.x();
    const Array &w = call.w(), &scales = call.scales(), &biases = call.biases();
    check_operands({&x, &w, &scales, &biases});
    if (!is_float(x.dtype) || x.rank == 0 || x.rank != w.rank) {
        invalid("x must be floats of the rank of w");
    }
    check_affine(w, scales, biases, op.mode, op.bits, op.group_size, x.dim(-1));
    if (!same_leading(x, w, x.rank - 1)) {
        invalid("x and w differ in their leading axes");
    }
    if (x.size() == 0) {
        return;
    }
    QuantizeParams p{};
    p.x = rows_of(lowering, x);
    const bool dense = x.contiguous();
    const Array words = dense_output(lowering, w), s = dense_output(lowering, scales);
    const Array b = biases ? dense_output(lowering, biases) : s;
    const uint32_t threads = lowering.device().max_workgroup_invocations >= 256 ? 256 : 128; // whole groups
    p.n = uint32_t(x.size());
    const uint32_t quads = quads_of_thread(lowering.device(), p.n, threads);
    p.blocks = divide_up(p.n, 4 * threads * quads);
    p.group_shift = group_shift(op.group_size);
    p.w_offset = uint32_t(words.offset);
    p.s_offset = uint32_t(s.offset);
    p.b_offset = uint32_t(b.offset);
    lowering.dispatch(spec::quantize{.threads = threads,
                                     .x_dtype = x.dtype,
                                     .scales_dtype = s.dtype,
                                     .biases_dtype = b.dtype,
                                     .bits = op.bits,
                                     .mode = op.mode,
                                     .vector = row_quads(lowering.device(), p.x, {}),
                                     .dense = dense,
                                     .quads = quads},
                      {.x = {x, KPX_READ}, .w = {words, KPX_WRITE}, .scales = {s, KPX_WRITE}, .biases = {b, KPX_WRITE}},
                      p, grid_1d(lowering.device(), p.blocks));
    store_output(lowering, words, w);
    store_output(lowering, s, scales);
    if (biases) {
        store_output(lowering, b, biases);
    }
}

} // namespace kpx
