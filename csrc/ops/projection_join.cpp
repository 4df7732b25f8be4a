#include "ops/projection_join.hpp"

#include <numeric>

#include "ops/affine.hpp"

namespace kpx {

// The matrices side by side, whatever is done with their products.
static ProjectionOp without_epilogue(ProjectionOp op) {
    op.epilogue = PROJECTION_STORE;
    return op;
}

std::vector<int64_t> tiles_of_each(const ProjectionOperands &m) {
    std::vector<int64_t> tiles;
    for (uint32_t i = 0; i < m.count; i++) {
        tiles.push_back(divide_up(m.w(i).dim(0), kTileOfSums));
    }
    return tiles;
}

int64_t tiles_of_all(const ProjectionOperands &m) {
    const std::vector<int64_t> tiles = tiles_of_each(m);
    return std::accumulate(tiles.begin(), tiles.end(), int64_t(0));
}

int64_t part_groups(const std::vector<int64_t> &tiles, int64_t most) {
    return std::accumulate(tiles.begin(), tiles.end(), int64_t(0),
                           [&](int64_t sum, int64_t n) { return sum + divide_up(n, most); });
}

int64_t part_sums_bytes(const ProjectionOperands &m, uint32_t part, uint32_t side) {
    return parts_and_blocks(m, part, side) * side * tiles_of_all(m) * kTileOfSums * int64_t(sizeof(float));
}

PartSums make_part_sums(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, uint32_t part,
                        uint32_t side, uint32_t lanes) {
    const int64_t parts = divide_up(m.cols / 32, part), rows = divide_up(m.x_rows, side) * side;
    PartSums made{.part = part, .side = side, .lanes = lanes, .sums = {}, .squares = {}, .params = part_params(op, m)};
    made.sums = lowering.scratch(DT_FLOAT32, {parts, rows, tiles_of_all(m) * kTileOfSums});
    made.squares = op.norm == 0 ? made.sums : lowering.scratch(DT_FLOAT32, {m.x_rows, m.cols / 32});
    return made;
}

ProjectionParams part_params(const ProjectionOp &op, const ProjectionOperands &m) {
    ProjectionParams p{};
    (void)fill_groups(p, without_epilogue(op), m, kTileOfSums);
    return p;
}

void join_parts(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, const PartSums &sums) {
    constexpr uint32_t kJoinThreads = 128;
    const int64_t columns = (is_pair(op) ? sums.params.starts[0] : tiles_of_all(m)) * kTileOfSums;
    const ProjectionBindings bind{m, m.out(0)};
    const bool gives = m.out(0).dtype == DT_FLOAT32;
    lowering.dispatch(spec::projection_join{.threads = kJoinThreads,
                                            .y_dtype = m.out(0).dtype,
                                            .scales_dtype = m.scales(0).dtype,
                                            .biases_dtype = bound_biases(m.scales(0), m.biases(0)).dtype,
                                            .group_shift = group_shift(op.group_size) - 5,
                                            .cols = uint32_t(m.cols),
                                            .sets = m.count,
                                            .epilogue = op.epilogue,
                                            .lanes = sums.lanes,
                                            .part = sums.part,
                                            .side = sums.side,
                                            .bits = op.bits,
                                            .norm = op.norm,
                                            .x_dtype = m.x.dtype,
                                            .overlap = 0},
                      {.part_sums = bind.read(sums.sums),
                       PROJECTION_MATRIX(bind, 0, bind.y(0, gives)),
                       PROJECTION_MATRIX(bind, 1, bind.y(1, gives)),
                       PROJECTION_MATRIX(bind, 2, bind.y(2, gives)),
                       .residual = bind.read(m.residual),
                       .x = bind.read(m.x),
                       .squares = bind.read(sums.squares)},
                      sums.params, grid_1d(lowering.device(), m.x_rows * divide_up(columns, kJoinThreads)));
}

} // namespace kpx
