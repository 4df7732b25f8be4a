#include "ops/quantized_matmul_fragments.hpp"

#include "ops/quantized_matmul_bytes.hpp"
#include "ops/quantized_matmul_split.hpp"

namespace kpx {

namespace {

constexpr int64_t kChunkColumns = 128; // 8 * CHUNK_RUNS of fragment_runs.glsl
constexpr int64_t kMoreColumns = 64;   // added to those of x are multiples of that
constexpr uint32_t kTiles = 4;         // of 16 rows of w, that a subgroup has
constexpr int64_t kBlockN = kTiles * 16;
// Shared memory of the largest shape, with waves_n = 2: two halves of a chunk, 64 columns of 128 rows as float16.
constexpr uint32_t kWeightBytes = 2 * 64 * (2 * kBlockN) * 2;

// How quantized_matmul_fragments computes a product.
struct FragmentsPlan : PartsPlan {
    uint32_t row_tiles;        // of 16 rows of x, of a subgroup
    uint32_t waves_m, waves_n; // subgroups
    int64_t chunks;
    uint32_t splits; // workgroups that share the columns of a tile

    explicit FragmentsPlan(const QuantizedProduct &x) : PartsPlan(x) {
        fragments = true;
        more = divide_up(more, kMoreColumns) * kMoreColumns;
        chunks = divide_up(x.p.x.cols, kChunkColumns);
        x_runs = (chunks + divide_up(more, kChunkColumns)) * kChunkColumns / 8;
        row_tiles = x.p.x.rows > 32 ? 4 : 2;
        waves_m = best_waves(x.p.x.rows);
        waves_n = waves_m == 4 ? 1 : 2;
        const double chunk = x_parts == 1 ? 3.6 : 5.6;
        splits = best_ranges(x, uint32_t(chunks), count(x.p.x.rows, x.p.n), {chunk, 0.65 * chunk});
    }

    int64_t tile_m() const { return waves_m * row_tiles * 16; }
    int64_t tile_n() const { return waves_n * kBlockN; }
    int64_t count(int64_t m, int64_t n) const { return int64_t(divide_up(m, tile_m())) * divide_up(n, tile_n()); }
    uint32_t chunks_of(uint32_t s) const { return uint32_t(divide_up(chunks, s)); }

    // Where more subgroups share weights, a row takes less time, but more rows that do not exist are computed. The
    // ratios, and the times of a chunk above, are from products of 512 rows on an H200, of an earlier form.
    uint32_t best_waves(int64_t m) const {
        uint32_t best = 1;
        double least = 0;
        for (uint32_t waves : {1u, 2u, 4u}) {
            const int64_t rows = waves * row_tiles * 16;
            const double time = double(divide_up(m, rows) * rows) * (waves == 4 ? 1 : waves == 2 ? 1.09 : 1.7);
            if (waves == 1 || time <= least) {
                least = time;
                best = waves;
            }
        }
        return best;
    }
};

// Codes that prefers_bytes takes as well are faster by this kernel where x has 16 bits and there is much to do.
bool beats_bytes(const QuantizedProduct &x) {
    const int64_t rows = x.p.x.rows;
    return x.x.dtype != DT_FLOAT32 && rows > 128 && rows * x.p.n * x.p.x.cols >= 2'500'000'000;
}

} // namespace

bool prefers_fragment_matrices(const Lowering &lowering, const QuantizedProduct &x) {
    const bool affine = x.op.mode == QUANTIZATION_AFFINE;
    const DeviceTraits &device = lowering.device();
    if (!device.fragment_codes || device.max_shared_bytes < kWeightBytes || x.p.x.cols % 32 != 0 || x.p.n < kBlockN ||
        (affine ? x.op.bits != 4 || x.scales.dtype != DT_BFLOAT16 : x.op.bits != 4 && x.op.bits != 8)) {
        return false;
    }
    if (prefers_bytes(lowering, x) && !beats_bytes(x)) {
        return false;
    }
    for (const char *kernel : {spec::quantized_matmul_fragments::kKernel, spec::quantized_matmul_split::kKernel,
                               spec::quantized_matmul_join::kKernel}) {
        if (!lowering.has_kernel(kernel)) {
            return false;
        }
    }
    return true;
}

void dispatch_fragment_matrices(Lowering &lowering, QuantizedProduct &x) {
    const FragmentsPlan plan(x);
    const int64_t rows = x.p.x.rows;
    const Array w = quads_in_rows(x.w) ? x.w : copy_of(lowering, x.w);
    fill(x.p.w_strides, 2, w.strides, 2, 0);
    x.p.w_offset = uint32_t(w.offset);
    const OperandParts in = operand_parts(lowering, x, plan);
    const QuantizedMatMulMatrixParams p{x.p, uint32_t(plan.x_runs), plan.chunks_of(plan.splits),
                                        uint32_t(x.residual ? x.residual.offset : 0), uint32_t(plan.more)};
    const bool whole = plan.splits == 1; // what a workgroup adds up
    const Array sums = whole ? x.out : lowering.scratch(DT_FLOAT32, {plan.splits, rows, x.p.n});
    Grid grid = grid_1d(lowering.device(), plan.count(rows, x.p.n));
    grid.z = plan.splits;
    lowering.dispatch(spec::quantized_matmul_fragments{.threads = plan.waves_m * plan.waves_n * 32,
                                                       .x_dtype = x.x.dtype,
                                                       .scales_dtype = x.scales.dtype,
                                                       .biases_dtype = x.biases.dtype,
                                                       .bits = x.op.bits,
                                                       .y_dtype = x.out.dtype,
                                                       .splits = plan.splits,
                                                       .parts = plan.x_parts,
                                                       .group_shift = x.p.group_shift,
                                                       .row_tiles = plan.row_tiles,
                                                       .w_tiles = kTiles,
                                                       .waves_m = plan.waves_m,
                                                       .waves_n = plan.waves_n,
                                                       .residual = uint32_t(whole && bool(x.residual))},
                      {.x_words = {in.x_parts, KPX_READ},
                       .w = {w, KPX_READ},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .y = {x.out, KPX_WRITE},
                       .scaled = {in.scales, KPX_READ},
                       .w_more = {in.more, KPX_READ},
                       .x_exponents = {in.x_exponents, KPX_READ},
                       .w_exponents = {in.w_exponents, KPX_READ},
                       .sums = {sums, KPX_WRITE},
                       .residual = {whole && x.residual ? x.residual : in.x_parts, KPX_READ}},
                      p, grid);
    if (!whole) {
        join_splits(lowering, x, plan, in, w, sums, p, plan.splits);
    }
}

} // namespace kpx
