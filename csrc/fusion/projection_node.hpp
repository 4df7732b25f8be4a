// The parts of a node that multiplies rows with quantized matrices, for the
// passes that extend a projection.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.hpp"

namespace kpx {

struct Projection {
    struct Matrix {
        Array w, scales, biases, out;
    };
    static constexpr size_t kMostMatrices = ProjectionCall::kGroups;

    ProjectionOp op{};
    Array x, gain, up, residual;
    std::vector<Matrix> matrices;

    // Whether the rows of x itself are multiplied.
    bool plain_x() const { return op.norm == 0 && !up; }
    // Neither that nor an epilogue: only the products.
    bool plain() const { return plain_x() && op.epilogue == PROJECTION_STORE; }
    // Whether the matrices of the other may be added: both are plain, and have the same x and quantization.
    bool joins(const Projection &other) const;
    OpNode node() const;
};

// A quantized_matmul with a transposed matrix, or a projection, as a projection.
std::optional<Projection> projection_of(const OpNode &node);

// The projection whose result is exactly the view and is read by the node `reader` alone; it has no epilogue, but may
// have a norm.
struct Producer {
    Graph::Id id;
    Projection projection;
};
std::optional<Producer> product_for(const Graph &graph, Graph::Id reader, const Array &view);

// A projection of rows that a Call in another node makes, each from one row of its operand `source`.
template <typename Call> struct MadeRows {
    Graph::Id id; // of the node that makes them
    Call call;
    Projection projection;
};

// The node `id` as such a projection. There is none if the product divides such rows into several.
template <typename Call> std::optional<MadeRows<Call>> made_rows(const Graph &graph, Graph::Id id, uint32_t source) {
    const std::optional<Projection> p = projection_of(graph.node(id));
    if (!p || !p->plain_x()) {
        return std::nullopt;
    }
    const std::optional<Graph::Touch> from = graph.producer(id, p->x);
    const std::optional<Call> call = from ? graph.node(from->node).template as<Call>() : std::nullopt;
    if (!call || !same_data(call->out(), p->x)) {
        return std::nullopt;
    }
    const Array &x = graph.node(from->node).arrays[source];
    if (x.rank == 0 || x.dim(-1) != p->x.dim(-1)) {
        return std::nullopt;
    }
    return MadeRows<Call>{from->node, *call, *p};
}

} // namespace kpx
