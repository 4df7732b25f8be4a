#include "ops/quantized_matmul_matrix.hpp"

#include "ops/affine.hpp"
#include "ops/matvec.hpp"
#include "ops/projection.hpp"
#include "ops/tiles.hpp"

namespace kpx {

namespace {

void check_product(const QuantizedMatMulOp &op, const QuantizedMatMulCall &call) {
    const Array &x = call.x(), &w = call.w(), &out = call.out();
    check_operands({&x, &w, &call.scales(), &call.biases(), &out});
    if (!x || !out || !w || w.rank != 2 || x.rank < 1 || x.rank != out.rank) {
        invalid("x and out must have the same rank, and w must be a matrix");
    }
    if (!is_float(x.dtype) || !is_float(out.dtype)) {
        invalid("x and out must be floats");
    }
    const int64_t k = x.dim(-1), n = out.dim(-1);
    if (w.dim(0) != (op.transpose != 0 ? n : k)) {
        invalid("x and w do not fit");
    }
    if (!same_leading(x, out, x.rank - 1)) {
        invalid("x and out differ in their leading axes");
    }
    return check_affine(w, call.scales(), call.biases(), op.mode, op.bits, op.group_size, op.transpose != 0 ? k : n);
}

// How many words of w may be loaded at once: both the length of a unit of 32
// codes (bits words) and its start must be multiples of that.
uint32_t vector_words(const QuantizedProduct &x) {
    for (uint32_t words : {4u, 2u}) {
        if (x.p.w_strides[1] == 1 && x.op.bits % words == 0 && x.p.w_offset % words == 0 &&
            x.p.w_strides[0] % words == 0) {
            return words;
        }
    }
    return 1;
}

// Gives a workgroup fewer rows of x if its loops would have too many rounds.
Matvec plan_vec(const DeviceTraits &device, const QuantizedProduct &x) {
    const int64_t cols = x.p.x.cols;
    MatvecRounds rounds;
    if (device.small_code) { // ROLLED
        rounds.unit = 120;
    }
    if (x.op.mode == QUANTIZATION_AFFINE) {
        rounds.result += cols / 32 * 34; // not_finite_sum
    }
    Matvec v;
    int64_t most_rows = device.small_code ? 2 : Matvec::kMostRows;
    do {
        v = plan_matvec(device, x.p.x.rows, cols, x.p.n, most_rows, rounds);
        most_rows /= 2;
    } while (most_rows > 0 && too_many_rounds(device, v.rounds));
    return v;
}

void dispatch_vec(Lowering &lowering, QuantizedProduct &x) {
    const Matvec v = plan_vec(lowering.device(), x);
    x.p.rows_per_group = v.rows_per_group;
    // The number of loads in flight per lane, limited by its units and registers.
    const uint32_t units = std::max(1u, (std::min(v.chunk, x.p.x.cols) / 32 + v.lanes - 1) / v.lanes);
    const bool single = v.rows > 2 || x.op.bits > 4 || lowering.device().small_code;
    const uint32_t batch = single ? 1 : std::min(units, v.rows > 1 ? 2u : 4u);
    Grid grid = grid_1d(lowering.device(), v.groups);
    grid.z = v.row_blocks;
    lowering.dispatch(spec::quantized_matmul_vec{.threads = v.threads,
                                                 .x_dtype = x.x.dtype,
                                                 .scales_dtype = x.scales.dtype,
                                                 .biases_dtype = x.biases.dtype,
                                                 .bits = x.op.bits,
                                                 .y_dtype = x.out.dtype,
                                                 .staged_rows = v.rows,
                                                 .staged_chunk = v.chunk,
                                                 .lanes = v.lanes,
                                                 .vector = vector_words(x),
                                                 .batch = batch},
                      {.x = {x.x, KPX_READ},
                       .w = {x.w, KPX_READ},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .y = {x.out, KPX_WRITE}},
                      x.p, grid);
}

// Whether the form for CPU drivers is used. That must not depend on the layouts of x and w, so that a view gives the
// same bits as its copy.
bool takes_lanes(const Lowering &lowering, const QuantizedProduct &x) {
    return prefers_lanes(lowering, spec::quantized_matmul_lanes::kKernel) && x.op.transpose != 0 &&
           x.op.mode == QUANTIZATION_AFFINE &&
           x.p.x.rows <= 2 * Matvec::kMostRows && // as for quantized_matmul_vec there
           !too_many_rounds(lowering.device(), lane_rounds(x.p.x.cols, x.op.group_size, 1));
}

void dispatch_lanes(Lowering &lowering, QuantizedProduct &x) {
    Array rows_of_x = x.x, w = x.w;
    if (!quads_in_rows(x.p.x)) {
        rows_of_x = copy_of(lowering, x.x);
        x.p.x = rows_of(lowering, rows_of_x);
    }
    const uint32_t run = x.op.bits % 4 == 0 ? 4 : x.op.bits % 2 == 0 ? 2 : 1; // words that are read at once
    if (x.p.w_strides[1] != 1 || vector_words(x) < run) {
        w = copy_of(lowering, x.w);
        fill(x.p.w_strides, 2, w.strides, 2, 0);
        x.p.w_offset = uint32_t(w.offset);
    }
    uint32_t x_rows = 1; // of a workgroup
    while (x_rows < Matvec::kMostRows && x_rows < x.p.x.rows) {
        x_rows *= 2;
    }
    uint32_t rows = rows_of_lane(x.p.n, std::min(8u, 16 / x_rows));
    while (too_many_rounds(lowering.device(), lane_rounds(x.p.x.cols, x.op.group_size, rows * x_rows))) {
        (rows > 1 ? rows : x_rows) /= 2;
    }
    Grid grid = grid_1d(lowering.device(), (x.p.n + LANES * rows - 1) / (LANES * rows));
    grid.z = (x.p.x.rows + x_rows - 1) / x_rows;
    lowering.dispatch(spec::quantized_matmul_lanes{.threads = LANES,
                                                   .x_dtype = rows_of_x.dtype,
                                                   .scales_dtype = x.scales.dtype,
                                                   .biases_dtype = x.biases.dtype,
                                                   .y_dtype = x.out.dtype,
                                                   .rows = rows,
                                                   .bits = x.op.bits,
                                                   .x_rows = x_rows},
                      {.x = {rows_of_x, KPX_READ},
                       .w = {w, KPX_READ},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .y = {x.out, KPX_WRITE}},
                      x.p, grid);
}

bool prefers_vec(const DeviceTraits &device, const QuantizedProduct &x) {
    if (x.op.transpose == 0 || x.p.x.cols > Matvec::kMostLength || x.p.x.cols % 32 != 0) {
        return false;
    }
    const bool few =
        x.p.x.rows <= Matvec::kMostRows || Matvec::beats_tiles(device, x.p.x.rows, Tiles().count(x.p.x.rows, x.p.n));
    return few && !too_many_rounds(device, plan_vec(device, x).rounds);
}

void dispatch_tiled(Lowering &lowering, const QuantizedProduct &x) {
    const Tiles t = plan_tiles(lowering.device(), x.p.x.rows, x.p.n, 1);
    check_rounds(lowering.device(), t.rounds(x.p.x.cols, 8));
    lowering.dispatch(t.large ? spec::quantized_matmul_tiled_large::kKernel : spec::quantized_matmul_tiled::kKernel,
                      spec::quantized_matmul_tiled{.threads = t.threads(),
                                                   .x_dtype = x.x.dtype,
                                                   .scales_dtype = x.scales.dtype,
                                                   .biases_dtype = x.biases.dtype,
                                                   .bits = x.op.bits,
                                                   .y_dtype = x.out.dtype,
                                                   .threads_m = t.threads_m,
                                                   .threads_n = t.threads_n,
                                                   .transpose = x.op.transpose},
                      {.x = {x.x, KPX_READ},
                       .w = {x.w, KPX_READ},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .y = {x.out, KPX_WRITE}},
                      x.p, grid_1d(lowering.device(), t.count(x.p.x.rows, x.p.n)));
}

// On a GPU, a product of up to kMostProjectionRows rows is lowered as a projection even if no pass has made it one, so
// that both give the same bits.
ProjectionOp projection_op(const QuantizedMatMulOp &op) {
    ProjectionOp projection{};
    projection.group_size = op.group_size;
    projection.bits = op.bits;
    projection.epilogue = PROJECTION_STORE;
    return projection;
}

// The operands of a product with one matrix.
struct Product {
    Array x, w, scales, biases, out;

    ProjectionOperands operands() const {
        static const Array none;
        const int64_t cols = x.dim(-1);
        return {x, none, none, none, {{&w, &scales, &biases, &out}}, 1, cols, x.size() / cols, {}};
    }
};

// x as if it were contiguous from the beginning of its memory.
Array packed(Array x) {
    x.offset = 0;
    x.pack();
    return x;
}

// Whether it is a projection must not depend on the operands' layouts, so that a view gives the same bits as its
// copy.
bool takes_projection(const Lowering &lowering, const QuantizedMatMulCall &call) {
    const Array &x = call.x();
    if (call.op().transpose == 0 || !has_code_bytes(call.op().bits, bool(call.biases())) || x.size() == 0 ||
        x.size() > kMostProjectionRows * x.dim(-1) || !lowering.has_kernel(spec::projection::kKernel) ||
        prefers_lanes(lowering, spec::projection_lanes::kKernel)) {
        return false;
    }
    try {
        const Product product{packed(x), packed(call.w()), packed(call.scales()), packed(call.biases()),
                              packed(call.out())};
        check_projection(lowering, projection_op(call.op()), product.operands());
    } catch (const Error &e) {
        if (e.code != KPX_UNSUPPORTED) {
            throw;
        }
        return false;
    }
    return true;
}

// Operands whose layout the kernels cannot read are copied.
void project(Lowering &lowering, const QuantizedMatMulCall &call) {
    const auto rows = [&](const Array &x, int64_t unit) {
        if (!x) {
            return x;
        }
        const bool fits = x.stride(-1) == 1 && x.offset % unit == 0 && (x.dim(0) == 1 || x.stride(0) % unit == 0);
        return fits ? x : copy_of(lowering, x);
    };
    const Product product{rows_in_quads(call.x()) ? call.x() : copy_of(lowering, call.x()), rows(call.w(), 4),
                          rows(call.scales(), 1), rows(call.biases(), 1), dense_output(lowering, call.out())};
    dispatch_projection(lowering, projection_op(call.op()), product.operands());
    store_output(lowering, product.out, call.out());
}

} // namespace

void lower_quantized_matmul(Lowering &lowering, const QuantizedMatMulCall &call) {
    const auto &op = call.op();
    check_product(call.op(), call);
    const Array &w = call.w(), &scales = call.scales(), &out = call.out();
    const Array &biases = bound_biases(scales, call.biases());
    Array rows = call.x();
    if (out.size() == 0) {
        return;
    }
    if (takes_projection(lowering, call)) {
        project(lowering, call);
        return;
    }
    const Array dense = dense_output(lowering, out);
    QuantizedProduct x = quantized_product(lowering, op, rows, w, scales, biases, dense);
    if (prefers_matrices(lowering, x)) {
        dispatch_matrices(lowering, x);
    } else if (takes_lanes(lowering, x)) {
        dispatch_lanes(lowering, x);
    } else if (prefers_vec(lowering.device(), x)) {
        dispatch_vec(lowering, x);
    } else {
        dispatch_tiled(lowering, x);
    }
    store_output(lowering, dense, out);
}

} // namespace kpx
