// Arrays: x, offset?, freqs?, out.
#include "ops/rotary.hpp"

namespace kpx {

static Support check_rope(const Lowering &lowering, const RoPEOp &op, const OpCall &call) {
    const Array &x = call.arrays[0], &offset = call.arrays[1], &freqs = call.arrays[2], &out = call.arrays[3];
    if (Support s = check_operands(lowering, {&x, &offset, &freqs, &out}); !s.ok()) {
        return s;
    }
    if (!x || !out || x.rank != 4 || !same_shape(x, out) || !is_float(x.dtype) || !is_float(out.dtype)) {
        return unsupported("x and out must be floats of one shape of rank 4");
    }
    if (op.dims % 2 != 0 || int64_t(op.dims) > x.dim(3)) {
        return unsupported("%u rotated elements of heads of %lld", op.dims, (long long)x.dim(3));
    }
    if (offset && (offset.dtype != DT_INT32 || offset.rank != 1 || (offset.dim(0) != 1 && offset.dim(0) != x.dim(0)))) {
        return unsupported("offset must be int32 [1] or [B]");
    }
    if (freqs && (freqs.dtype != DT_FLOAT32 || freqs.rank != 1 || freqs.dim(0) != op.dims / 2)) {
        return unsupported("freqs must be float32 [dims/2]");
    }
    return supported();
}

Support lower_rope(Lowering &lowering, const OpCall &call) {
    const auto *op = call.as<RoPEOp>();
    if (op == nullptr || call.n != 4) {
        return unsupported("rope takes 4 arrays");
    }
    if (Support s = check_rope(lowering, *op, call); !s.ok()) {
        return s;
    }
    const Array &x = call.arrays[0], &offset = call.arrays[1], &freqs = call.arrays[2], &out = call.arrays[3];
    if (out.size() == 0) {
        return supported();
    }
    const Array dense = dense_output(lowering, out);
    RoPEParams p{};
    p.heads = uint32_t(x.dim(1));
    p.steps = uint32_t(x.dim(2));
    p.cols = uint32_t(x.dim(3));
    p.dims = op->dims;
    p.n = uint32_t(x.size() / x.dim(3)) * (p.cols - p.dims / 2);
    fill(p.x_strides, 4, x.strides, 4, 0);
    p.x_offset = uint32_t(x.offset);
    p.out_offset = uint32_t(dense.offset);
    p.offset = op->offset;
    if (offset) {
        p.position_offset = uint32_t(offset.offset);
        p.position_stride = offset.dim(0) == 1 ? 0 : uint32_t(offset.stride(0));
    }
    if (freqs) {
        p.freqs_offset = uint32_t(freqs.offset);
        p.freqs_stride = uint32_t(freqs.stride(0));
    }
    p.scale = op->scale;
    rotary_step(op->base, op->dims, p.step_high, p.step_low);
    lowering.dispatch(
        "rope", {ELEMENT_THREADS, x.dtype, dense.dtype, op->traditional, uint32_t(bool(offset)), uint32_t(bool(freqs))},
        {{x, KPX_READ}, {offset ? offset : x, KPX_READ}, {freqs ? freqs : x, KPX_READ}, {dense, KPX_WRITE}}, p,
        grid_elements(lowering.device(), p.n));
    store_output(lowering, dense, out);
    return supported();
}

} // namespace kpx
