#include "ops/projection_rows.hpp"

#include <algorithm>

#include "ops/projection_operands.hpp"

namespace kpx {

namespace {

constexpr uint32_t kRowChunk = 4;                     // units of 32 columns of a chunk
constexpr uint32_t kRowTeams = 4, kRowTeamLanes = 32; // teams of a workgroup of projection_rows

} // namespace

Array make_rows(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, uint32_t side) {
    const int64_t units = m.cols / 32, blocks = divide_up(m.x_rows, side);
    const uint32_t span = span_units(lowering, op, m);
    const Array out = lowering.scratch(DT_UINT32, {blocks, divide_up(units, kRowChunk), X_CHUNK(side), 4});
    const ProjectionRowsParams p{uint32_t(m.x_rows), uint32_t(m.x.offset), uint32_t(m.cols),
                                 m.gain ? uint32_t(m.gain.offset) : 0};
    lowering.dispatch(spec::projection_rows{.threads = kRowTeams * kRowTeamLanes,
                                            .x_dtype = m.x.dtype,
                                            .gain_dtype = gain_dtype(m),
                                            .cols = uint32_t(m.cols),
                                            .norm = norm_constant(op, m),
                                            .teams = kRowTeams,
                                            .side = side,
                                            .even_first = uint32_t(op.bits == 4),
                                            .middle = span > 1 ? 1u << (op.bits - 1) : 0u,
                                            .span = span},
                      {.x = {m.x, KPX_READ}, .gain = {m.gain ? m.gain : m.x, KPX_READ}, .units = {out, KPX_WRITE}}, p,
                      grid_1d(lowering.device(), blocks * divide_up(units * side / 8, kRowTeams)));
    return out;
}

uint32_t scale_words(const ProjectionOp &op, const ProjectionOperands &m) {
    const int64_t groups = kRowChunk * 32 / op.group_size, words = std::max<int64_t>(1, groups / 4);
    for (uint32_t i = 0; i < m.count; i++) {
        for (const Array *x : {&m.scales(i), &m.biases(i)}) {
            if (!*x) {
                continue;
            }
            const bool fills =
                groups * x->element_size() == 4 * words && x->offset % groups == 0 && x->stride(0) % groups == 0;
            if (!fills) {
                return 0;
            }
        }
    }
    return m.cols % (kRowChunk * 32) == 0 ? uint32_t(words) : 0;
}

} // namespace kpx
