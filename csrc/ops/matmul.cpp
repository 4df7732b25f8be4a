#include "ops/matvec.hpp"
#include "ops/tiles.hpp"

namespace kpx {

namespace {

void check_matmul(const Lowering &lowering, const MatMulCall &call) {
    const Array &a = call.a(), &b = call.b(), &out = call.out();
    check_operands(lowering, {&a, &b, &out});
    if (!a || !b || !out || !is_float(a.dtype) || !is_float(b.dtype) || !is_float(out.dtype)) {
        invalid("operands must be floats");
    }
    if (a.rank < 2 || a.rank != b.rank || a.rank != out.rank) {
        invalid("ranks {}, {} and {}", a.rank, b.rank, out.rank);
    }
    for (uint32_t d = 0; d + 2 < a.rank; d++) {
        if (a.shape[d] != b.shape[d] || a.shape[d] != out.shape[d]) {
            invalid("batch axes differ");
        }
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

// Whether each row of b (along k) can be read by 16 bytes.
bool wide(const Product &x) {
    const int64_t elements = 16 / x.b.element_size();
    bool even = x.p.b_strides[0] == 1 && x.p.k % elements == 0 && x.p.b_strides[1] % elements == 0 &&
                x.p.b_offset % elements == 0;
    for (uint32_t stride : x.p.b_batch) {
        even = even && stride % elements == 0;
    }
    return even;
}

void dispatch_vec(Lowering &lowering, const Product &x) {
    const Matvec v = plan_matvec(lowering.device(), x.p.m, x.p.k, x.p.n);
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
                          {{x.a, KPX_READ}, {x.b, KPX_READ}, {x.out, KPX_WRITE}}, p, grid);
    }
}

void dispatch_tiled(Lowering &lowering, const Product &x) {
    const Tiles t = plan_tiles(lowering.device(), x.p.m, x.p.n, x.batches);
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
                          {{x.a, KPX_READ}, {x.b, KPX_READ}, {x.out, KPX_WRITE}}, p, grid);
    }
}

// Rows of a in blocks as batches for the matrix-vector kernel.
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

void dispatch(Lowering &lowering, const Product &x) {
    const DeviceTraits &device = lowering.device();
    const bool along_k = (x.p.b_strides[0] == 1 || x.p.k <= 1) && x.p.k <= Matvec::kMostLength;
    if (along_k && x.p.m <= Matvec::kMostRows) {
        dispatch_vec(lowering, x);
    } else if (along_k && x.batches == 1 && Matvec::beats_tiles(device, x.p.m, Tiles().count(x.p.m, x.p.n))) {
        dispatch_blocks(lowering, x);
    } else {
        dispatch_tiled(lowering, x);
    }
}

} // namespace

void lower_matmul(Lowering &lowering, const MatMulCall &call) {
    check_matmul(lowering, call);
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
    // One matrix b for all batches: batches of rows of a are just more rows.
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
