#include "ops/quantized_matmul_matrix.hpp"

#include "ops/affine.hpp"
#include "ops/matrix_tiles.hpp"
#include "ops/quantized_matmul_bytes.hpp"

namespace kpx {

namespace {

// The other kernels are faster for up to 16 rows.
constexpr uint32_t kMatrixRows = 17;

// How quantized_matmul_coopmat computes a product.
struct MatrixPlan {
    MatrixTiles tiles;
    uint32_t x_parts, w_parts; // number of float16 parts whose sum is an element
    uint32_t splits;
    int64_t groups, more; // of a row of w; the number of columns appended to those of x

    MatrixPlan(const DeviceTraits &device, const QuantizedProduct &x) {
        const bool affine = x.op.mode == QUANTIZATION_AFFINE;
        x_parts = x.x.dtype == DT_FLOAT32 ? 2 : 1;
        // 8 bits of bfloat16 times 3 bits of a code and a sign are float16's 11.
        w_parts = !affine || (x.op.bits <= 4 && x.scales.dtype == DT_BFLOAT16) ? 1 : 2;
        tiles = MatrixTiles::plan(device, x.p.x.rows, x_parts, w_parts, true);
        const int64_t cols = x.p.x.cols;
        groups = cols >> x.p.group_shift;
        const int64_t copies = affine ? BIAS_COPIES(x_parts, w_parts) : 0;
        more = tiles.padded(cols + copies * groups) - cols;
        splits = x.p.n % 4 == 0 ? tiles.splits(x.p.x.rows, x.p.n, cols + more) : 1;
    }
};

// What quantized_matmul_coopmat reads besides w.
struct MatrixOperands {
    Array x_parts, x_exponents, scales, more, w_exponents;
};

MatrixOperands split_operands(Lowering &lowering, const QuantizedProduct &x, const MatrixPlan &plan) {
    const DeviceTraits &device = lowering.device();
    const int64_t rows = x.p.x.rows, cols = x.p.x.cols, n = x.p.n;
    const MatrixOperands out{lowering.scratch(DT_UINT32, {plan.x_parts, rows, (cols + plan.more) / 2}),
                             lowering.scratch(DT_INT32, {rows}),
                             lowering.scratch(plan.w_parts == 1 ? DT_FLOAT16 : DT_FLOAT32, {n, plan.groups}),
                             lowering.scratch(DT_FLOAT16, {plan.w_parts, n, std::max<int64_t>(plan.more, 1)}),
                             lowering.scratch(DT_INT32, {n})};
    QuantizedMatMulSplitParams p{};
    Array factors;
    p.rows = made_rows(lowering, x, factors);
    p.weights = scales_params(x);
    p.weights.more = uint32_t(plan.more);
    const MadeRowsShape shape = made_rows_shape(device, x);
    const int64_t subgroups = shape.threads / device.subgroup_size; // each prepares a row of w
    lowering.dispatch(spec::quantized_matmul_split{.threads = shape.threads,
                                                   .x_dtype = x.x.dtype,
                                                   .scales_dtype = x.scales.dtype,
                                                   .biases_dtype = x.biases.dtype,
                                                   .parts = plan.x_parts,
                                                   .vector = quads_in_rows(p.rows.x) && quads_in_rows(p.rows.factors),
                                                   .w_parts = plan.w_parts,
                                                   .sums = uint32_t(x.op.mode == QUANTIZATION_AFFINE),
                                                   .bits = x.op.bits,
                                                   .factors_dtype = factors.dtype,
                                                   .rows_kind = x.rows_kind,
                                                   .runs = shape.runs},
                      {.x = {x.x, KPX_READ},
                       .parts = {out.x_parts, KPX_WRITE},
                       .exponents = {out.x_exponents, KPX_WRITE},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .scaled = {out.scales, KPX_WRITE},
                       .w_more = {out.more, KPX_WRITE},
                       .w_exponents = {out.w_exponents, KPX_WRITE},
                       .factors = {factors, KPX_READ}},
                      p, grid_1d(device, rows + (n + subgroups - 1) / subgroups));
    return out;
}

// Adds up what the workgroups that share the steps of a tile have left in sums.
void join_splits(Lowering &lowering, const QuantizedProduct &x, const MatrixPlan &plan, const MatrixOperands &in,
                 const Array &w, const Array &sums, const QuantizedMatMulMatrixParams &p) {
    lowering.dispatch(
        spec::quantized_matmul_join{.threads = ELEMENT_THREADS,
                                    .x_dtype = x.x.dtype,
                                    .scales_dtype = x.scales.dtype,
                                    .biases_dtype = x.biases.dtype,
                                    .bits = x.op.bits,
                                    .y_dtype = x.out.dtype,
                                    .splits = plan.splits,
                                    .residual = uint32_t(bool(x.residual))},
        {.x_parts = {in.x_parts, KPX_READ},
         .w = {w, KPX_READ},
         .scales = {x.scales, KPX_READ},
         .biases = {x.biases, KPX_READ},
         .y = {x.out, KPX_WRITE},
         .x_exponents = {in.x_exponents, KPX_READ},
         .w_exponents = {in.w_exponents, KPX_READ},
         .sums = {sums, KPX_READ},
         .residual = {x.residual ? x.residual : in.x_parts, KPX_READ}},
        p, grid_1d(lowering.device(), (int64_t(x.p.x.rows) * x.p.n / 4 + ELEMENT_THREADS - 1) / ELEMENT_THREADS));
}

constexpr int64_t kMostRuns = 4; // of 8 elements, in the registers of a thread of made_rows.glsl

// The factors of x's rows; a vector is that of every row.
RowParams factor_rows(Lowering &lowering, Array &factors, const RowParams &x) {
    if (factors.rank != 1) {
        return rows_of(lowering, factors);
    }
    RowParams rows = x;
    std::fill(rows.strides, rows.strides + 3, 0);
    rows.col_stride = uint32_t(factors.strides[0]);
    rows.offset = uint32_t(factors.offset);
    return rows;
}

} // namespace

MadeRowsParams made_rows(Lowering &lowering, const QuantizedProduct &x, Array &factors) {
    MadeRowsParams p{};
    p.x = x.p.x;
    factors = x.factors ? x.factors : x.x;
    p.factors = factor_rows(lowering, factors, p.x);
    p.eps = x.eps;
    return p;
}

MadeRowsShape made_rows_shape(const DeviceTraits &device, const QuantizedProduct &x) {
    const int64_t runs = x.p.x.cols / 8;
    uint32_t threads = std::max(device.subgroup_size, row_threads(device, runs));
    while (threads * kMostRuns < runs && threads * 2 <= std::min(device.max_workgroup_invocations, 1024u)) {
        threads *= 2;
    }
    return {threads, uint32_t(std::min<int64_t>(divide_up(runs, threads), kMostRuns))};
}

QuantizedMatMulScalesParams scales_params(const QuantizedProduct &x) {
    QuantizedMatMulScalesParams p{};
    p.n = x.p.n;
    p.groups = x.p.x.cols >> x.p.group_shift;
    p.group_shift = x.p.group_shift;
    std::copy(x.p.s_strides, x.p.s_strides + 2, p.s_strides);
    std::copy(x.p.b_strides, x.p.b_strides + 2, p.b_strides);
    p.s_offset = x.p.s_offset;
    p.b_offset = x.p.b_offset;
    return p;
}

QuantizedProduct quantized_product(Lowering &lowering, const QuantizedMatMulOp &op, Array &x, const Array &w,
                                   const Array &scales, const Array &biases, const Array &out) {
    QuantizedProduct q{op, x, w, scales, biases, out};
    q.p.x = rows_of(lowering, x);
    q.p.n = uint32_t(out.dim(-1));
    q.p.group_shift = group_shift(op.group_size);
    fill(q.p.w_strides, 2, w.strides, 2, 0);
    fill(q.p.s_strides, 2, scales.strides, 2, 0);
    fill(q.p.b_strides, 2, biases.strides, 2, 0);
    q.p.w_offset = uint32_t(w.offset);
    q.p.s_offset = uint32_t(scales.offset);
    q.p.b_offset = uint32_t(biases.offset);
    q.p.out_offset = uint32_t(out.offset);
    return q;
}

bool prefers_matrices(const Lowering &lowering, const QuantizedProduct &x) {
    // A subgroup of the kernel that prepares x adds up whole groups of columns.
    if (x.op.transpose == 0 || x.p.x.rows < kMatrixRows || x.op.group_size > 8 * lowering.device().subgroup_size) {
        return false;
    }
    if (prefers_bytes(lowering, x)) {
        return true;
    }
    for (const char *kernel : {spec::quantized_matmul_coopmat::kKernel, spec::quantized_matmul_split::kKernel,
                               spec::quantized_matmul_join::kKernel}) {
        if (!lowering.has_kernel(kernel)) {
            return false;
        }
    }
    const MatrixPlan plan(lowering.device(), x);
    return plan.tiles.fits(lowering.device(), plan.x_parts, plan.w_parts);
}

bool takes_fused(const Lowering &lowering, const QuantizedProduct &x) {
    if (!prefers_matrices(lowering, x)) {
        return false;
    }
    return !x.residual || (prefers_bytes(lowering, x) ? x.p.n % 4 == 0 : MatrixPlan(lowering.device(), x).splits > 1);
}

void dispatch_matrices(Lowering &lowering, QuantizedProduct &x) {
    if (prefers_bytes(lowering, x)) {
        dispatch_bytes(lowering, x);
        return;
    }
    const DeviceTraits &device = lowering.device();
    const MatrixPlan plan(device, x);
    const MatrixTiles &t = plan.tiles;
    const int64_t rows = x.p.x.rows;
    const Array w = x.w.stride(1) == 1 ? x.w : contiguous(lowering, x.w); // contiguous words
    fill(x.p.w_strides, 2, w.strides, 2, 0);
    x.p.w_offset = uint32_t(w.offset);
    const MatrixOperands in = split_operands(lowering, x, plan);
    QuantizedMatMulMatrixParams p{x.p, uint32_t((x.p.x.cols + plan.more) / 8), 0,
                                  uint32_t(x.residual ? x.residual.offset : 0)};
    const uint32_t steps = p.x_runs * 8 / t.depth;
    p.split_runs = (steps + plan.splits - 1) / plan.splits * t.depth / 8;
    const Array sums = plan.splits == 1 ? x.out : lowering.scratch(DT_FLOAT32, {plan.splits, rows, x.p.n});
    Grid grid = grid_1d(device, t.count(rows, x.p.n));
    grid.z = plan.splits;
    lowering.dispatch(spec::quantized_matmul_coopmat{.threads = t.threads(),
                                                     .x_dtype = x.x.dtype,
                                                     .scales_dtype = x.scales.dtype,
                                                     .biases_dtype = x.biases.dtype,
                                                     .bits = x.op.bits,
                                                     .y_dtype = x.out.dtype,
                                                     .splits = plan.splits,
                                                     .a_parts = plan.x_parts,
                                                     .b_parts = plan.w_parts,
                                                     .depth = t.depth,
                                                     .rows = t.rows,
                                                     .columns = t.columns,
                                                     .waves_m = t.waves_m,
                                                     .waves_n = t.waves_n,
                                                     .lanes = t.lanes},
                      {.x_parts = {in.x_parts, KPX_READ},
                       .w = {w, KPX_READ},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .y = {x.out, KPX_WRITE},
                       .scaled = {in.scales, KPX_READ},
                       .w_more = {in.more, KPX_READ},
                       .x_exponents = {in.x_exponents, KPX_READ},
                       .w_exponents = {in.w_exponents, KPX_READ},
                       .sums = {sums, KPX_WRITE}},
                      p, grid);
    if (plan.splits > 1) {
        join_splits(lowering, x, plan, in, w, sums, p);
    }
}

} // namespace kpx
