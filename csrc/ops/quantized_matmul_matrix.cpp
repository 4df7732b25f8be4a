#include "ops/quantized_matmul_matrix.hpp"

#include "ops/affine.hpp"
#include "ops/matrix_tiles.hpp"
#include "ops/quantized_matmul_bytes.hpp"
#include "ops/quantized_matmul_fragments.hpp"
#include "ops/quantized_matmul_split.hpp"

namespace kpx {

namespace {

// The other kernels are faster for up to 16 rows.
constexpr uint32_t kMatrixRows = 17;

// How quantized_matmul_coopmat computes a product.
struct MatrixPlan : PartsPlan {
    MatrixTiles tiles;
    uint32_t splits;

    MatrixPlan(const DeviceTraits &device, const QuantizedProduct &x) : PartsPlan(x) {
        tiles = MatrixTiles::plan(device, x.p.x.rows, x_parts, w_parts, true);
        const int64_t cols = x.p.x.cols;
        more = tiles.padded(cols + more) - cols;
        x_runs = (cols + more) / 8;
        splits = x.p.n % 4 == 0 ? tiles.splits(x.p.x.rows, x.p.n, cols + more) : 1;
    }
};

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

// Decides by the shape alone, not by the device. Adding up takes 2 µs and a pass through memory.
uint32_t best_ranges(const QuantizedProduct &x, uint32_t steps, int64_t tiles, StepTimes times) {
    const double results = double(x.p.x.rows) * double(x.p.n);
    uint32_t best = 1;
    double least = 0;
    for (uint32_t s = 1; s <= 8 && (s == 1 || (x.p.n % 4 == 0 && steps / s >= 2)); s++) { // sums are stored by fours
        const uint32_t of_range = uint32_t(divide_up(steps, s));
        if (divide_up(steps, of_range) != s) {
            continue;
        }
        const int64_t workgroups = tiles * s, rest = workgroups % 264;
        const double step = double(workgroups / 264) * times.full + (rest == 0     ? 0
                                                                     : rest <= 132 ? times.half
                                                                                   : times.full);
        const double join = s == 1 ? 0 : 2 + double(s) * results / 600e3;
        const double us = of_range * step + join;
        if (s == 1 || us < least) {
            least = us;
            best = s;
        }
    }
    return best;
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

// Whether a tensor can hold what is prepared of x: up to four bytes an element, and some rows past the last.
static bool rows_fit(const DeviceTraits &device, const QuantizedProduct &x) {
    constexpr uint64_t kSpareRows = 32, kPadding = 256; // of a row
    return (x.p.x.rows + kSpareRows) * (x.p.x.cols + kPadding) * 4 <= device.max_tensor_bytes;
}

bool prefers_matrices(const Lowering &lowering, const QuantizedProduct &x) {
    // A subgroup of the kernel that prepares x adds up whole groups of columns. Steps are of at least one.
    if (x.op.transpose == 0 || x.p.x.rows < kMatrixRows || x.p.x.cols == 0 ||
        x.op.group_size > 8 * lowering.device().subgroup_size || !rows_fit(lowering.device(), x)) {
        return false;
    }
    if (prefers_fragment_matrices(lowering, x) || prefers_bytes(lowering, x)) {
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
    const bool adds =
        prefers_fragment_matrices(lowering, x) || prefers_bytes(lowering, x); // where nothing is joined as well
    return !x.residual || (adds ? x.p.n % 4 == 0 : MatrixPlan(lowering.device(), x).splits > 1);
}

void dispatch_matrices(Lowering &lowering, QuantizedProduct &x) {
    if (prefers_fragment_matrices(lowering, x)) {
        dispatch_fragment_matrices(lowering, x);
        return;
    }
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
    const OperandParts in = operand_parts(lowering, x, plan);
    QuantizedMatMulMatrixParams p{x.p, uint32_t(plan.x_runs), 0, uint32_t(x.residual ? x.residual.offset : 0),
                                  uint32_t(plan.more)};
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
        join_splits(lowering, x, plan, in, w, sums, p, plan.splits);
    }
}

} // namespace kpx
