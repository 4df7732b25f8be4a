#include "ops/quantized_matmul_bytes.hpp"

namespace kpx {

namespace {

constexpr int64_t kDepth = 128;                       // DEPTH of quantized_matmul_bytes_coopmat
constexpr int64_t kPlanes = 4;                        // PLANES of limb_planes.glsl
constexpr uint32_t kPartThreads = 128, kPartRuns = 2; // of a workgroup for a part of a row
constexpr int64_t kRowsOfW = 32;                      // W_ROWS of quantized_matmul_limbs

// LIMBS of limb_planes.glsl.
uint32_t limb_count(const QuantizedProduct &x) {
    return x.x.dtype == DT_FLOAT32 ? 3 : 2;
}

// The shape of a workgroup of quantized_matmul_bytes_coopmat.
struct BytesPlan {
    uint32_t rows = 4, columns = 2;    // matrices of 16 by 16 for each subgroup
    uint32_t waves_m = 1, waves_n = 4; // subgroups
    uint32_t lanes;
    uint32_t steps;  // of kDepth columns
    uint32_t splits; // workgroups that share the steps of a tile
    uint32_t limbs;

    BytesPlan(const DeviceTraits &device, const QuantizedProduct &x)
        : lanes(std::max(device.subgroup_size, 32u)), limbs(limb_count(x)) {
        if (!fits(device, x.p.group_shift)) { // into shared memory
            waves_n = 2;
            rows = 2;
        }
        steps = uint32_t(divide_up(x.p.x.cols, kDepth));
        splits = best_ranges(x, steps, count(x.p.x.rows, x.p.n), {3.1, 2.2});
    }

    uint32_t threads() const { return waves_m * waves_n * lanes; }
    int64_t tile_m() const { return int64_t(waves_m) * rows * 16; }
    int64_t tile_n() const { return int64_t(waves_n) * columns * 16; }
    int64_t count(int64_t m, int64_t n) const { return int64_t(divide_up(m, tile_m())) * divide_up(n, tile_n()); }

    bool fits(const DeviceTraits &device, uint32_t group_shift) const {
        const int64_t factors = (kDepth >> group_shift) * (tile_m() + tile_n()) / 2;
        const int64_t operands = (limbs * tile_m() + tile_n()) * (kDepth / 16 + 1) + factors;
        const int64_t results = tile_m() * (tile_n() / 4 + 1);
        return threads() <= device.max_workgroup_invocations &&
               std::max(operands, results) * 16 <= device.max_shared_bytes;
    }

    // Steps of a workgroup; each of the workgroups that share a tile has one.
    uint32_t steps_of(uint32_t s) const { return uint32_t(divide_up(steps, s)); }
};

// What quantized_matmul_bytes_coopmat reads besides the codes.
struct Limbs {
    Array planes, factors, w_factors;
};

Limbs limbs_of(Lowering &lowering, const QuantizedProduct &x) {
    const DeviceTraits &device = lowering.device();
    const int64_t rows = x.p.x.rows, cols = x.p.x.cols, groups = cols >> x.p.group_shift;
    const Limbs out{lowering.scratch(DT_UINT32, {kPlanes, rows, cols / 4}),
                    lowering.scratch(DT_FLOAT32, {groups, rows, 2}), lowering.scratch(DT_FLOAT32, {groups, x.p.n, 2})};
    Array factors;
    QuantizedMatMulLimbsParams p{};
    p.rows = made_rows(lowering, x, factors);
    p.weights = scales_params(x);
    const bool normed = x.rows_kind == ROWS_NORMED || x.rows_kind == ROWS_GAINED;
    const MadeRowsShape shape = normed ? made_rows_shape(device, x) : MadeRowsShape{kPartThreads, kPartRuns};
    p.row_parts = normed ? 1 : divide_up(cols / 8, shape.threads * shape.runs);
    const int64_t abreast = shape.threads / kRowsOfW;
    const uint32_t turns = uint32_t(std::min<int64_t>(divide_up(groups, abreast), 4));
    lowering.dispatch(
        spec::quantized_matmul_limbs{.threads = shape.threads,
                                     .x_dtype = x.x.dtype,
                                     .vector = quads_in_rows(p.rows.x) && quads_in_rows(p.rows.factors),
                                     .factors_dtype = factors.dtype,
                                     .scales_dtype = x.scales.dtype,
                                     .biases_dtype = x.biases.dtype,
                                     .rows_kind = x.rows_kind,
                                     .runs = shape.runs,
                                     .w_turns = turns,
                                     .limbs = limb_count(x),
                                     .bits = x.op.bits},
        {.x = {x.x, KPX_READ},
         .planes = {out.planes, KPX_WRITE},
         .x_factors = {out.factors, KPX_WRITE},
         .factors = {factors, KPX_READ},
         .scales = {x.scales, KPX_READ},
         .biases = {x.biases, KPX_READ},
         .w_factors = {out.w_factors, KPX_WRITE}},
        p, grid_1d(device, rows * p.row_parts + divide_up(x.p.n, kRowsOfW) * divide_up(groups, abreast * turns)));
    return out;
}

} // namespace

bool prefers_bytes(const Lowering &lowering, const QuantizedProduct &x) {
    const DeviceTraits &device = lowering.device();
    if (x.op.mode != QUANTIZATION_AFFINE || x.p.group_shift < 6 || x.p.group_shift > 7) {
        return false;
    }
    for (const char *kernel : {spec::quantized_matmul_bytes_coopmat::kKernel, spec::quantized_matmul_limbs::kKernel,
                               spec::quantized_matmul_bytes_join::kKernel}) {
        if (!lowering.has_kernel(kernel)) {
            return false;
        }
    }
    const bool matrices = lowering.runs_variant(spec::quantized_matmul_bytes_coopmat::kKernel, "khr8");
    const bool usable = matrices ? device.subgroup_size == 32 || device.subgroup_size == 64 : device.as_gpu;
    return usable && BytesPlan(device, x).fits(device, x.p.group_shift);
}

void dispatch_bytes(Lowering &lowering, QuantizedProduct &x) {
    const DeviceTraits &device = lowering.device();
    const BytesPlan plan(device, x);
    const int64_t rows = x.p.x.rows, n = x.p.n;
    const bool readable = x.op.bits % 4 == 0 ? quads_in_rows(x.w) : x.w.stride(1) == 1; // by quads, or by words
    const Array w = readable ? x.w : copy_of(lowering, x.w);
    fill(x.p.w_strides, 2, w.strides, 2, 0);
    x.p.w_offset = uint32_t(w.offset);
    const Limbs limbs = limbs_of(lowering, x);
    const QuantizedMatMulBytesParams p{x.p, plan.steps_of(plan.splits), uint32_t(x.residual ? x.residual.offset : 0)};
    const bool whole = plan.splits == 1; // what a workgroup adds up
    const Array sums = whole ? x.out : lowering.scratch(DT_FLOAT32, {plan.splits, rows, n});
    Grid grid = grid_1d(device, plan.count(rows, n));
    grid.z = plan.splits;
    lowering.dispatch(spec::quantized_matmul_bytes_coopmat{.threads = plan.threads(),
                                                           .scales_dtype = x.scales.dtype,
                                                           .biases_dtype = x.biases.dtype,
                                                           .bits = x.op.bits,
                                                           .y_dtype = x.out.dtype,
                                                           .splits = plan.splits,
                                                           .residual = uint32_t(whole && bool(x.residual)),
                                                           .group_shift = x.p.group_shift,
                                                           .rows = plan.rows,
                                                           .columns = plan.columns,
                                                           .waves_m = plan.waves_m,
                                                           .waves_n = plan.waves_n,
                                                           .lanes = plan.lanes,
                                                           .limbs = plan.limbs},
                      {.x_planes = {limbs.planes, KPX_READ},
                       .w = {w, KPX_READ},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .y = {sums, KPX_WRITE},
                       .x_factors = {limbs.factors, KPX_READ},
                       .w_factors = {limbs.w_factors, KPX_READ},
                       .sums = {sums, KPX_WRITE},
                       .residual = {whole && x.residual ? x.residual : limbs.planes, KPX_READ}},
                      p, grid);
    if (!whole) {
        lowering.dispatch(
            spec::quantized_matmul_bytes_join{.threads = element_threads(lowering.device()),
                                              .y_dtype = x.out.dtype,
                                              .splits = plan.splits,
                                              .residual = uint32_t(bool(x.residual))},
            {.sums = {sums, KPX_READ}, .y = {x.out, KPX_WRITE}, .residual = {x.residual ? x.residual : sums, KPX_READ}},
            p, grid_1d(device, divide_up(rows * n / 4, element_threads(device))));
    }
}

} // namespace kpx
