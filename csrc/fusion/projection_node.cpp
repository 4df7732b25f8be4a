#include "fusion/projection_node.hpp"

namespace kpx {

bool Projection::joins(const Projection &other) const {
    return plain() && other.plain() && same_data(x, other.x) && op.bits == other.op.bits &&
           op.group_size == other.op.group_size;
}

OpNode Projection::node() const {
    NodeBuilder builder("projection", op);
    builder.read(x).read(gain).read(residual);
    for (size_t i = 0; i < kMostMatrices; i++) {
        const Matrix m = i < matrices.size() ? matrices[i] : Matrix{};
        builder.read(m.w).read(m.scales).read(m.biases).write(m.out);
    }
    return builder.node;
}

static std::optional<Projection> from_product(const OpNode &node) {
    const auto *op = node.as<QuantizedMatMulOp>();
    const Array &x = node.arrays[0];
    if (op == nullptr || op->mode != QUANTIZATION_AFFINE || op->transpose == 0 || x.rank == 0 || x.size() == 0 ||
        x.size() != x.dim(-1)) {
        return std::nullopt;
    }
    Projection p;
    p.op.group_size = op->group_size;
    p.op.bits = op->bits;
    p.op.epilogue = PROJECTION_STORE;
    p.x = x;
    p.matrices.push_back({node.arrays[1], node.arrays[2], node.arrays[3], node.arrays[4]});
    return p;
}

std::optional<Projection> projection_of(const OpNode &node) {
    if (node.is("quantized_matmul")) {
        return from_product(node);
    }
    if (!node.is("projection")) {
        return std::nullopt;
    }
    Projection p;
    p.op = *node.as<ProjectionOp>();
    p.x = node.arrays[0];
    p.gain = node.arrays[1];
    p.residual = node.arrays[2];
    for (size_t at = 3; at < node.arrays.size() && node.arrays[at]; at += 4) {
        p.matrices.push_back({node.arrays[at], node.arrays[at + 1], node.arrays[at + 2], node.arrays[at + 3]});
    }
    return p;
}

std::optional<Producer> product_for(const Graph &graph, Graph::Id reader, const Array &view) {
    const std::optional<Graph::Touch> from = graph.producer(reader, view);
    if (!from) {
        return std::nullopt;
    }
    std::optional<Projection> p = projection_of(graph.node(from->node));
    if (!p || p->op.epilogue != PROJECTION_STORE || p->matrices.size() != 1 || !same_data(p->matrices[0].out, view)) {
        return std::nullopt;
    }
    return Producer{from->node, std::move(*p)};
}

} // namespace kpx
