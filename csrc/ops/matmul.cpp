#include "ops/matrix_tiles.hpp"
#include "ops/matvec.hpp"
#include "ops/tiles.hpp"

namespace kpx {

namespace {

void check_matmul(const MatMulCall &call) {
    const Array &a = call.a(), &b = call.b(), &out = call.out();
    check_operands({&a, &b, &out});
    if (!a || !b || !out || !is_float(a.dtype) || !is_float(b.dtype) || !is_float(out.dtype)) {
        invalid("operands must be floats");
    }
    if (a.rank < 2 || a.rank != b.rank || a.rank != out.rank) {
        invalid("ranks {}, {} and {}", a.rank, b.rank, out.rank);
    }
    if (!same_leading(a, b, a.rank - 2) || !same_leading(a, out, a.rank - 2)) {
        invalid("batch axes differ");
    }
    if (a.dim(-1) != b.dim(-2) || a.dim(-2) != out.dim(-2) || b.dim(-1) != out.dim(-1)) {
        invalid("matrices do not fit");
    }
}

// A product of matrices over up to three batch axes.
struct Product {
    const Array &a, &b, &out;
    MatMulParams p{};
    int64_t batches = 1;
};

// Whether each row of b (along k) can be read 16 bytes at a time.
bool wide(const Product &x) {
    const int64_t elements = 16 / x.b.element_size();
    return x.p.b_strides[0] == 1 && x.p.k % elements == 0 &&
           aligned(x.p.b_offset, &x.p.n, &x.p.b_strides[1], 1, elements) &&
           aligned(0, x.p.shape, x.p.b_batch, 3, elements);
}

void dispatch_vec(Lowering &lowering, const Product &x) {
    const Matvec v = plan_matvec(lowering.device(), x.p.m, x.p.k, x.p.n);
    check_rounds(lowering.device(), v.rounds);
    Grid grid = grid_1d(lowering.device(), v.groups);
    const int64_t most = lowering.device().max_workgroup_count[2];
    for (int64_t done = 0; done < x.batches; done += grid.z) {
        MatMulVecParams p{x.p, v.rows_per_group};
        p.matmul.batch = uint32_t(done);
        grid.z = uint32_t(std::min(most, x.batches - done));
        lowering.dispatch(spec::matmul_vec{.threads = v.threads,
                                           .a_dtype = x.a.dtype,
                                           .b_dtype = x.b.dtype,
                                           .y_dtype = x.out.dtype,
                                           .staged_rows = v.rows,
                                           .staged_chunk = v.chunk,
                                           .lanes = v.lanes,
                                           .vector = uint32_t(wide(x))},
                          {.a = {x.a, KPX_READ}, .b = {x.b, KPX_READ}, .y = {x.out, KPX_WRITE}}, p, grid);
    }
}

int64_t tile_rounds(const Tiles &t, const Product &x) {
    return t.rounds(x.p.k, 1);
}

void dispatch_tiled(Lowering &lowering, const Product &x) {
    const Tiles t = plan_tiles(lowering.device(), x.p.m, x.p.n, x.batches);
    check_rounds(lowering.device(), tile_rounds(t, x));
    Grid grid = grid_1d(lowering.device(), t.count(x.p.m, x.p.n));
    const int64_t most = lowering.device().max_workgroup_count[2];
    for (int64_t done = 0; done < x.batches; done += grid.z) {
        MatMulParams p = x.p;
        p.batch = uint32_t(done);
        grid.z = uint32_t(std::min(most, x.batches - done));
        lowering.dispatch(t.large ? spec::matmul_tiled_large::kKernel : spec::matmul_tiled::kKernel,
                          spec::matmul_tiled{.threads = t.threads(),
                                             .a_dtype = x.a.dtype,
                                             .b_dtype = x.b.dtype,
                                             .y_dtype = x.out.dtype,
                                             .threads_m = t.threads_m,
                                             .threads_n = t.threads_n,
                                             .a_by_m = uint32_t(p.a_strides[0] < p.a_strides[1]),
                                             .b_by_n = uint32_t(p.b_strides[1] < p.b_strides[0])},
                          {.a = {x.a, KPX_READ}, .b = {x.b, KPX_READ}, .y = {x.out, KPX_WRITE}}, p, grid);
    }
}

// Treats blocks of rows of a as batches, for the matrix-vector kernel.
void dispatch_blocks(Lowering &lowering, const Product &x) {
    const uint32_t rows = uint32_t(Matvec::kMostRows);
    Product blocks = x;
    blocks.batches = x.p.m / rows;
    blocks.p.m = rows;
    blocks.p.shape[0] = uint32_t(blocks.batches);
    blocks.p.a_batch[0] = rows * x.p.a_strides[0];
    blocks.p.b_batch[0] = 0;
    dispatch_vec(lowering, blocks);
    const uint32_t done = uint32_t(blocks.batches) * rows;
    if (done < x.p.m) {
        Product rest = x;
        rest.p.m = x.p.m - done;
        rest.p.a_offset += done * x.p.a_strides[0];
        rest.p.out_offset += done * x.p.n;
        dispatch_vec(lowering, rest);
    }
}

// The number of float16 parts whose sum is an element.
uint32_t parts_of(const Array &x) {
    return x.dtype == DT_FLOAT32 ? 2 : 1;
}

// Below these sizes (of m, n and k, and of their product), one dispatch of another kernel is faster than three.
constexpr uint32_t kMatrixSide = 32;
constexpr uint64_t kMatrixWork = 1 << 18;

// The matrices of an operand of matmul_coopmat that are split: each one once, however many batches share it.
struct Split {
    MatMulSplitParams p{};
    uint32_t strides[3]{}; // of the batch axes, in rows of parts

    Split(const Product &x, bool is_a) {
        p.rows = is_a ? x.p.m : x.p.n;
        p.k = x.p.k;
        p.row_stride = is_a ? x.p.a_strides[0] : x.p.b_strides[1];
        p.k_stride = is_a ? x.p.a_strides[1] : x.p.b_strides[0];
        p.offset = is_a ? x.p.a_offset : x.p.b_offset;
        p.batches = 1;
        for (int d = 2; d >= 0; d--) {
            p.batch_strides[d] = is_a ? x.p.a_batch[d] : x.p.b_batch[d];
            p.shape[d] = p.batch_strides[d] == 0 ? 1 : x.p.shape[d];
            strides[d] = p.shape[d] == 1 ? 0 : p.batches * p.rows;
            p.batches *= p.shape[d];
        }
    }
    uint32_t all_rows() const { return p.batches * p.rows; }
    // The parts of a broadcast matrix would be far larger than its storage.
    bool is_stretched() const { return (p.row_stride == 0 && p.rows > 1) || (p.k_stride == 0 && p.k > 1); }
};

uint64_t part_bytes(const Split &split, const MatrixTiles &t, uint32_t parts) {
    return uint64_t(parts) * split.all_rows() * uint64_t(t.padded(split.p.k)) * 2;
}

// Whether the parts of both can be multiplied. Rows of float16 are used as they are, infinities included, and
// not flagged, so both must be float16 or neither: an infinity times the parts of another number, one of
// which may be zero, would be NaN.
bool parts_go_together(const Array &a, const Array &b) {
    return (a.dtype == DT_FLOAT16) == (b.dtype == DT_FLOAT16);
}

bool prefers_matrices(const Lowering &lowering, const Product &x) {
    const DeviceTraits &device = lowering.device();
    if (x.p.m < kMatrixSide || x.p.n < kMatrixSide || x.p.k < kMatrixSide ||
        uint64_t(x.batches) * x.p.m * x.p.n * x.p.k < kMatrixWork || x.batches > device.max_workgroup_count[2] ||
        !lowering.has_kernel(spec::matmul_coopmat::kKernel) || !lowering.has_kernel(spec::matmul_split::kKernel) ||
        device.max_workgroup_invocations < 256 || !parts_go_together(x.a, x.b)) {
        return false;
    }
    const uint32_t a_parts = parts_of(x.a), b_parts = parts_of(x.b);
    const MatrixTiles t = MatrixTiles::plan(device, x.p.m, a_parts, b_parts, false);
    const Split a(x, true), b(x, false);
    return t.fits(device, a_parts, b_parts) && !a.is_stretched() && !b.is_stretched() &&
           std::max(part_bytes(a, t, a_parts), part_bytes(b, t, b_parts)) <= device.max_tensor_bytes;
}

// Splits an operand of matmul_coopmat into rows along k of float16 parts, with their exponents.
struct Parts {
    Array parts, exponents;
};

Parts dispatch_split(Lowering &lowering, const Array &in, Split split, uint32_t runs) {
    MatMulSplitParams &p = split.p;
    p.runs = runs;
    const uint32_t count = parts_of(in);
    const Parts out{lowering.scratch(DT_UINT32, {count, split.all_rows(), runs * 4}),
                    lowering.scratch(DT_INT32, {split.all_rows()})};
    Grid grid = grid_1d(lowering.device(), (p.rows + 31) / 32);
    grid.z = p.batches;
    lowering.dispatch(
        spec::matmul_split{.x_dtype = in.dtype, .parts = count, .along_k = uint32_t(p.k_stride <= p.row_stride)},
        {.x = {in, KPX_READ}, .parts = {out.parts, KPX_WRITE}, .exponents = {out.exponents, KPX_WRITE}}, p, grid);
    return out;
}

void dispatch_matrices(Lowering &lowering, const Product &x) {
    const DeviceTraits &device = lowering.device();
    const uint32_t a_parts = parts_of(x.a), b_parts = parts_of(x.b);
    const MatrixTiles t = MatrixTiles::plan(device, x.p.m, a_parts, b_parts, false);
    const uint32_t runs = uint32_t(t.padded(x.p.k) / 8);
    const Split of_a(x, true), of_b(x, false);
    const Parts a = dispatch_split(lowering, x.a, of_a, runs), b = dispatch_split(lowering, x.b, of_b, runs);
    MatMulMatrixParams p{x.p, runs, {}, {}, of_a.all_rows(), of_b.all_rows()};
    std::copy(of_a.strides, of_a.strides + 3, p.a_parts);
    std::copy(of_b.strides, of_b.strides + 3, p.b_parts);
    Grid grid = grid_1d(device, t.count(x.p.m, x.p.n));
    grid.z = uint32_t(x.batches);
    lowering.dispatch(spec::matmul_coopmat{.threads = t.threads(),
                                           .a_dtype = x.a.dtype,
                                           .b_dtype = x.b.dtype,
                                           .y_dtype = x.out.dtype,
                                           .a_parts = a_parts,
                                           .b_parts = b_parts,
                                           .depth = t.depth,
                                           .rows = t.rows,
                                           .columns = t.columns,
                                           .waves_m = t.waves_m,
                                           .waves_n = t.waves_n,
                                           .lanes = t.lanes},
                      {.a = {x.a, KPX_READ},
                       .b = {x.b, KPX_READ},
                       .y = {x.out, KPX_WRITE},
                       .a_parts = {a.parts, KPX_READ},
                       .b_parts = {b.parts, KPX_READ},
                       .a_exponents = {a.exponents, KPX_READ},
                       .b_exponents = {b.exponents, KPX_READ}},
                      p, grid);
}

void dispatch(Lowering &lowering, const Product &x) {
    const DeviceTraits &device = lowering.device();
    const bool along_k = (x.p.b_strides[0] == 1 || x.p.k <= 1) && x.p.k <= Matvec::kMostLength;
    if (along_k && x.p.m <= Matvec::kMostRows) {
        dispatch_vec(lowering, x);
    } else if (prefers_matrices(lowering, x)) {
        dispatch_matrices(lowering, x);
    } else if (along_k && x.batches == 1 &&
               (Matvec::beats_tiles(device, x.p.m, Tiles().count(x.p.m, x.p.n)) ||
                too_many_rounds(device, tile_rounds(plan_tiles(device, x.p.m, x.p.n, 1), x)))) {
        dispatch_blocks(lowering, x);
    } else {
        dispatch_tiled(lowering, x);
    }
}

} // namespace

void lower_matmul(Lowering &lowering, const MatMulCall &call) {
    check_matmul(call);
    const Array &a = call.a(), &b = call.b(), &out = call.out();
    if (out.size() == 0) {
        return;
    }
    const Array dense = dense_output(lowering, out);
    Product x{a, b, dense};
    x.p.m = uint32_t(a.dim(-2));
    x.p.n = uint32_t(b.dim(-1));
    x.p.k = uint32_t(a.dim(-1));
    fill(x.p.a_strides, 2, {a.stride(-2), a.stride(-1)}, 2, 0);
    fill(x.p.b_strides, 2, {b.stride(-2), b.stride(-1)}, 2, 0);

    const int lead = int(a.rank) - 2;
    Axes axes = collapse({&a, &b, &dense}, lead);
    // If all batches share one matrix b, they are just more rows of a.
    const bool shared = std::all_of(axes.strides[1].begin(), axes.strides[1].begin() + axes.rank,
                                    [](int64_t stride) { return stride == 0; });
    if (const Axes rows = collapse({&a}, lead + 1); shared && rows.rank <= 1) {
        x.p.m = uint32_t(rows.size());
        x.p.a_strides[0] = rows.rank > 0 ? uint32_t(rows.strides[0][0]) : 0;
        axes.rank = 0;
    }
    for_each_outer(axes, 3, [&](const Axes &inner) {
        fill(x.p.shape, 3, inner.shape, inner.rank, 1);
        fill(x.p.a_batch, 3, inner.strides[0], inner.rank, 0);
        fill(x.p.b_batch, 3, inner.strides[1], inner.rank, 0);
        x.p.a_offset = uint32_t(inner.offset[0]);
        x.p.b_offset = uint32_t(inner.offset[1]);
        x.p.out_offset = uint32_t(inner.offset[2]);
        x.batches = inner.size();
        dispatch(lowering, x);
    });
    store_output(lowering, dense, out);
}

} // namespace kpx
