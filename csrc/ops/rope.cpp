#include "ops/rotary.hpp"

namespace kpx {

static void check_rope(const RoPEOp &op, const RoPECall &call) {
    const Array &x = call.x(), &offset = call.offset(), &freqs = call.freqs(), &out = call.out();
    check_operands({&x, &offset, &freqs, &out});
    if (!x || !out || x.rank != 4 || !same_shape(x, out) || !is_float(x.dtype) || x.dtype != out.dtype) {
        invalid("x and out must be floats of one type, and of one shape of rank 4");
    }
    if (op.dims % 2 != 0 || int64_t(op.dims) > x.dim(3)) {
        invalid("{} rotated elements of heads of {}", op.dims, x.dim(3));
    }
    if (offset && (offset.dtype != DT_INT32 || offset.rank != 1 || (offset.dim(0) != 1 && offset.dim(0) != x.dim(0)))) {
        invalid("offset must be int32 [1] or [B]");
    }
    if (freqs && (freqs.dtype != DT_FLOAT32 || freqs.rank != 1 || freqs.dim(0) != op.dims / 2)) {
        invalid("freqs must be float32 [dims/2]");
    }
}

void lower_rope(Lowering &lowering, const RoPECall &call) {
    const auto &op = call.op();
    check_rope(call.op(), call);
    const Array &x = call.x(), &offset = call.offset(), &freqs = call.freqs(), &out = call.out();
    if (out.size() == 0) {
        return;
    }
    const Array dense = dense_output(lowering, out);
    RoPEParams p{};
    p.heads = uint32_t(x.dim(1));
    p.steps = uint32_t(x.dim(2));
    p.cols = uint32_t(x.dim(3));
    p.dims = op.dims;
    // Several heads share a thread's angle if enough threads remain; a single row is faster with a thread for each.
    const int64_t pairs = x.size() / x.dim(3) * (p.cols - p.dims / 2);
    uint32_t heads = 1;
    while (heads < 8 && heads * 2 <= p.heads && pairs / (heads * 2) >= 1 << 17) {
        heads *= 2;
    }
    p.n = uint32_t(x.dim(0) * divide_up(p.heads, heads) * x.dim(2) * (p.cols - p.dims / 2));
    fill(p.x_strides, 4, x.strides, 4, 0);
    p.x_offset = uint32_t(x.offset);
    p.out_offset = uint32_t(dense.offset);
    p.offset = op.offset;
    if (offset) {
        p.position_offset = uint32_t(offset.offset);
        p.position_stride = offset.dim(0) == 1 ? 0 : uint32_t(offset.stride(0));
    }
    if (freqs) {
        p.freqs_offset = uint32_t(freqs.offset);
        p.freqs_stride = uint32_t(freqs.stride(0));
    }
    p.scale = op.scale;
    rotary_step(op.base, op.dims, p.step_high, p.step_low);
    lowering.dispatch(spec::rope{.threads = element_threads(lowering.device()),
                                 .x_dtype = x.dtype,
                                 .y_dtype = dense.dtype,
                                 .traditional = op.traditional,
                                 .has_positions = uint32_t(bool(offset)),
                                 .has_freqs = uint32_t(bool(freqs)),
                                 .heads = heads},
                      {.x = {x, KPX_READ},
                       .positions = {offset ? offset : x, KPX_READ},
                       .freqs = {freqs ? freqs : x, KPX_READ},
                       .y = {dense, KPX_WRITE}},
                      p, grid_elements(lowering.device(), p.n));
    store_output(lowering, dense, out);
}

} // namespace kpx
