// A node that multiplies rows with quantized matrices, taken apart: what the
// passes that grow a projection have in common.
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
    Array x, gain, residual;
    std::vector<Matrix> matrices;

    // Neither norm nor epilogue: products as they are.
    bool plain() const { return op.norm == 0 && op.epilogue == PROJECTION_STORE; }
    // Whether matrices of the other may join: both plain, of one x and in one quantization.
    bool joins(const Projection &other) const;
    OpNode node() const;
};

// A quantized_matmul with a transposed matrix, or a projection, as a projection.
std::optional<Projection> projection_of(const OpNode &node);

// The projection that gives all of the view, and nothing else, to the node `reader`; plain but for a norm.
struct Producer {
    Graph::Id id;
    Projection projection;
};
std::optional<Producer> product_for(const Graph &graph, Graph::Id reader, const Array &view);

} // namespace kpx
