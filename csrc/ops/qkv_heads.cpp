// The product that makes the heads of new tokens, and what prepares them for attention over pages. The latter joins the
// product's sums of parts, so there is no dispatch of projection_join between them.
#include <vector>

#include "ops/lowering_util.hpp"
#include "ops/paged.hpp"
#include "ops/projection_matrix.hpp"

namespace kpx {

namespace {

// Rows of n elements, for functions that need the form of a result that is never stored.
Array rows_like(const Array &x, uint32_t dtype, int64_t rows, int64_t n) {
    Array out = x;
    out.dtype = dtype;
    out.rank = 2;
    out.shape = {rows, n};
    out.strides = {n, 1};
    return out;
}

// The heads that begin at a column of the sums.
Array heads_at(const PartSums &sums, uint32_t dtype, uint32_t tile, int64_t rows, int64_t heads, int64_t d) {
    Array x = sums.sums;
    x.dtype = dtype;
    x.offset += int64_t(tile) * kTileOfSums;
    x.rank = 3;
    x.strides = {sums.sums.dim(-1), d, 1};
    x.shape = {rows, heads, d};
    return x;
}

void check_heads(const QKVHeadsCall &call) {
    const Array &out = call.out(), &keys = call.keys();
    const bool matrices = call.w(0).rank == 2 && call.w(1).rank == 2 && call.w(2).rank == 2;
    if (out.rank != 3 || keys.rank != 4 || !matrices || call.op().projection.norm == 0) {
        invalid("no heads, no pages, no matrices or no norm");
    }
    const int64_t d = out.dim(2);
    if (call.w(0).dim(0) != out.dim(1) * d || call.w(1).dim(0) != keys.dim(1) * d ||
        call.w(2).dim(0) != keys.dim(1) * d) {
        unsupported("{}, {} and {} products for heads of {}", call.w(0).dim(0), call.w(1).dim(0), call.w(2).dim(0), d);
    }
}

PartSums dispatch_products(Lowering &lowering, const QKVHeadsCall &call) {
    const Array &x = call.x(), &out = call.out(), none;
    const int64_t cols = x.rank == 0 ? 0 : x.dim(-1), rows = out.dim(0);
    if (cols == 0 || x.size() != rows * cols || !is_float(x.dtype) || rows > kMostProjectionRows || !rows_in_quads(x)) {
        unsupported("{} rows of {} elements", rows, cols);
    }
    const Array results[] = {rows_like(x, out.dtype, rows, call.w(0).dim(0)),
                             rows_like(x, out.dtype, rows, call.w(1).dim(0)),
                             rows_like(x, out.dtype, rows, call.w(2).dim(0))};
    ProjectionOperands m{x, call.gain(), none, none, {}, QKVHeadsCall::kGroups, cols, rows, {}};
    for (uint32_t i = 0; i < m.count; i++) {
        m.matrices[i] = {&call.w(i), &call.scales(i), &call.biases(i), &results[i]};
    }
    const ProjectionOp &op = call.op().projection;
    check_operands({&x, &call.gain()});
    check_projection(lowering, op, m);
    const std::optional<PartSums> sums =
        takes_byte_tiles(lowering, op, m) ? dispatch_part_sums(lowering, op, m) : std::nullopt;
    if (!sums) {
        unsupported("{} rows, whose products are not sums of parts", rows);
    }
    return *sums;
}

} // namespace

void lower_qkv_heads(Lowering &lowering, const QKVHeadsCall &call) {
    check_heads(call);
    const PartSums sums = dispatch_products(lowering, call);
    const Array &out = call.out();
    const int64_t rows = out.dim(0), d = out.dim(2), kv_heads = call.keys().dim(1);
    const Array q = heads_at(sums, out.dtype, 0, rows, out.dim(1), d);
    const Array k = heads_at(sums, out.dtype, sums.params.starts[0], rows, kv_heads, d);
    const Array v = heads_at(sums, out.dtype, sums.params.starts[1], rows, kv_heads, d);
    const HeadSums of{.cols = uint32_t(call.x().dim(-1)),
                      .lanes = sums.lanes,
                      .part = sums.part,
                      .side = sums.side,
                      .eps = call.op().projection.eps,
                      .sums = sums.sums,
                      .squares = sums.squares};
    std::vector<Array> operands{
        q, k, v, call.q_gain(), call.k_gain(), call.position(), call.freqs(), call.slots(), call.keys(), call.values()};
    if (!call.table()) {
        operands.push_back(out);
        dispatch_paged_heads(lowering, {operands.data(), uint32_t(operands.size()), call.op().heads}, of);
        return;
    }
    operands.insert(operands.end(), {call.table(), call.sequences(), call.lengths(), out});
    const PagedStepOp op{call.op().heads, call.op().scale};
    dispatch_paged_step(lowering, {operands.data(), uint32_t(operands.size()), op}, of);
}

} // namespace kpx
