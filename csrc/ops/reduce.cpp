#include "ops/reduce.hpp"
#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

static bool takes_one_axis(uint32_t kind) {
    return kind == REDUCE_ARG_MAX || kind == REDUCE_ARG_MIN || kind == REDUCE_GREEDY;
}
static bool gives_bool(uint32_t kind) {
    return kind == REDUCE_ALL || kind == REDUCE_ANY;
}

// The dtype of the result, or 0 if the kind does not accept x's.
static uint32_t result_dtype(uint32_t kind, uint32_t dtype) {
    if (kind == REDUCE_GREEDY && !is_float(dtype))
        return 0;
    if (takes_one_axis(kind))
        return DT_UINT32;
    if (gives_bool(kind))
        return DT_BOOL;
    switch (kind) {
    case REDUCE_SUM:
    case REDUCE_PROD:
        return dtype == DT_BOOL ? DT_INT32 : dtype == DT_UINT8 ? DT_UINT32 : dtype;
    case REDUCE_MEAN:
        return is_float(dtype) ? dtype : DT_FLOAT32;
    case REDUCE_LOG_SUM_EXP:
        return is_float(dtype) ? dtype : 0;
    default:
        return dtype;
    }
}

// x as [outer, inner]: the last axes are the inner ones. If either has more
// joint axes than the kernel walks, x becomes a contiguous copy.
struct Halves {
    Axes outer, inner;

    Halves(Lowering &lowering, Array &x, uint32_t kept) {
        split(x, kept);
        if (outer.rank > MAX_DIMS || inner.rank > MAX_DIMS) {
            x = contiguous(lowering, x);
            split(x, kept);
        }
    }

  private:
    void split(const Array &x, uint32_t kept) {
        outer = collapse({&x}, int(kept));
        Array rest = x;
        rest.rank = x.rank - kept;
        for (uint32_t d = 0; d < rest.rank; d++) {
            rest.shape[d] = x.shape[kept + d];
            rest.strides[d] = x.strides[kept + d];
        }
        inner = collapse({&rest});
    }
};

// Whether every quad of columns that starts at a multiple of 4 is one aligned load.
static bool has_quads(const Halves &x) {
    const Axes &inner = x.inner, &outer = x.outer;
    if (inner.rank == 0)
        return false;
    const uint32_t last = inner.rank - 1;
    return inner.strides[0][last] == 1 && (last == 0 || inner.shape[last] % 4 == 0) &&
           aligned(0, inner.shape.data(), inner.strides[0].data(), last, 4) &&
           aligned(outer.offset[0], outer.shape.data(), outer.strides[0].data(), outer.rank, 4);
}

// Whether neighbouring rows are closer in memory than neighbouring columns.
static bool rows_are_adjacent(const Halves &x) {
    if (x.outer.rank == 0 || x.inner.rank == 0)
        return x.inner.rank == 0;
    return std::abs(x.outer.strides[0][x.outer.rank - 1]) < std::abs(x.inner.strides[0][x.inner.rank - 1]);
}

// How the work is divided. It depends on the shape alone, and so does the order of sums.
struct Cut {
    uint32_t threads, lanes, parts, run;

    // Divides rows of cols elements into as many parts as keep the device busy, or into one.
    Cut(const DeviceTraits &device, int64_t rows, int64_t cols, bool whole) {
        threads = device.is_cpu ? 64 : device.max_workgroup_invocations >= 256 ? 256 : 128;
        uint32_t most = rows >= 16384 ? 8 : rows >= 1024 ? 64 : threads;
        for (lanes = 1; lanes < most && int64_t(lanes) * 4 < cols;)
            lanes *= 2;
        const int64_t block = int64_t(lanes) * 4;
        const int64_t busy = device.is_cpu ? 2048 : 1 << 17; // threads that fill a device
        // A lane adds at most 64 numbers to each of its sums, which keeps a mean within a millionth.
        int64_t wanted = std::max(busy / std::max<int64_t>(1, rows * lanes), (cols + block * 64 - 1) / (block * 64));
        if (cols <= 4 * block) // a second launch would take longer than the loop
            wanted = 1;
        wanted = std::max<int64_t>(1, std::min(wanted, (cols + block - 1) / block));
        if (whole)
            wanted = 1;
        run = uint32_t(((cols + wanted - 1) / wanted + block - 1) / block * block);
        run = std::max(run, 4 * lanes);
        parts = uint32_t(std::max<int64_t>(1, (cols + run - 1) / run));
    }
};

static ReduceParams describe(const Halves &x, int64_t rows, int64_t cols) {
    ReduceParams params{};
    params.rows = uint32_t(rows);
    params.cols = uint32_t(cols);
    params.quads = has_quads(x);
    params.adjacent_rows = rows_are_adjacent(x);
    fill_back(params.outer_shape, MAX_DIMS, x.outer.shape, x.outer.rank, 1);
    fill_back(params.outer_strides, MAX_DIMS, x.outer.strides[0], x.outer.rank, 0);
    params.inner_rank = std::max(x.inner.rank, 1u);
    fill_back(params.inner_shape, MAX_DIMS, x.inner.shape, x.inner.rank, 1);
    fill_back(params.inner_strides, MAX_DIMS, x.inner.strides[0], x.inner.rank, 0);
    params.offset = uint32_t(x.outer.offset[0]);
    params.count = float(cols);
    return params;
}

// How many quads a thread loads before it uses any: fewer where there are more instructions for each. A CPU has no
// latency to hide, and takes longer to compile. A launch FROM_PARTS loads no quads.
static uint32_t quads_ahead(const DeviceTraits &device, uint32_t kind, uint32_t stage) {
    if ((device.is_cpu && !device.as_gpu) || device.small_code || stage == STAGE_FROM_PARTS)
        return 1;
    return kind == REDUCE_SUM || kind == REDUCE_MEAN || kind == REDUCE_LOG_SUM_EXP ? 4 : 8;
}

static void launch(Lowering &lowering, const Array &x, uint32_t dtype, const Array &to, uint32_t kind, uint32_t stage,
                   ReduceParams params, const Cut &cut, uint32_t out_dtype) {
    params.parts = cut.parts;
    params.run = cut.run;
    params.lanes = cut.lanes;
    params.out_offset = uint32_t(to.offset);
    int64_t teams = cut.threads / cut.lanes;
    int64_t groups = (int64_t(params.rows) * cut.parts + teams - 1) / teams;
    const bool is_cpu = lowering.device().is_cpu;
    const bool plain = stage != STAGE_FROM_PARTS && params.quads && params.inner_rank == 1 &&
                       (!is_cpu || int64_t(params.rows) * params.cols >= 1 << 16);
    const uint32_t ahead = quads_ahead(lowering.device(), kind, stage);
    lowering.dispatch(ahead > 1 ? spec::reduce_ahead::kKernel : spec::reduce::kKernel,
                      spec::reduce{.threads = cut.threads,
                                   .x_dtype = dtype,
                                   .y_dtype = out_dtype,
                                   .kind = kind,
                                   .stage = stage,
                                   .ahead = ahead,
                                   .plain = plain},
                      {.x = {x, KPX_READ}, .y = {to, KPX_WRITE}}, params, grid_1d(lowering.device(), groups));
}

static void dispatch(Lowering &lowering, const Array &x, const Array &out, uint32_t kind, ReduceParams params) {
    const int64_t rows = params.rows, cols = params.cols;
    Cut cut(lowering.device(), rows, cols, false);
    if (cut.parts == 1) {
        launch(lowering, x, x.dtype, out, kind, STAGE_WHOLE, params, cut, out.dtype);
        return;
    }
    Array partial = lowering.scratch(DT_UINT32, {rows, int64_t(cut.parts), 2});
    launch(lowering, x, x.dtype, partial, kind, STAGE_TO_PARTS, params, cut, out.dtype);
    params.cols = cut.parts;
    params.offset = uint32_t(partial.offset);
    params.adjacent_rows = 0;
    Cut joint(lowering.device(), rows, cut.parts, true);
    launch(lowering, partial, x.dtype, out, kind, STAGE_FROM_PARTS, params, joint, out.dtype);
}

void join_arg_max(Lowering &lowering, uint32_t kind, const Array &pairs, uint32_t dtype, const Array &out) {
    ReduceParams params{};
    params.rows = 1;
    params.cols = uint32_t(pairs.dim(0));
    params.inner_rank = 1;
    params.offset = uint32_t(pairs.offset);
    const Cut joint(lowering.device(), 1, params.cols, true);
    launch(lowering, pairs, dtype, out, kind, STAGE_FROM_PARTS, params, joint, DT_UINT32);
}

void lower_reduce(Lowering &lowering, const ReduceCall &call) {
    Array x = call.x();
    const Array &out = call.out();
    const uint32_t kind = call.op().kind;
    if (kind > REDUCE_GREEDY || result_dtype(kind, x.dtype) != out.dtype)
        invalid("kind {} of {} to {}", kind, dtype_name(x.dtype), dtype_name(out.dtype));
    if (out.rank > x.rank || !same_leading(out, x, out.rank))
        invalid("out's shape is not a leading part of x's");
    if (takes_one_axis(kind) && out.rank + 1 != x.rank)
        invalid("arg_max, arg_min and greedy reduce one axis");
    check_operands({&x, &out});
    const int64_t rows = out.size();
    if (rows == 0)
        return;
    Halves halves(lowering, x, out.rank);
    Array dense = dense_output(lowering, out);
    Array source = x;
    if (x.size() == 0) { // it is not read, and may have no memory
        source = dense;
        source.dtype = x.dtype;
    }
    dispatch(lowering, source, dense, kind, describe(halves, rows, x.size() / rows));
    store_output(lowering, dense, out);
}

} // namespace kpx
