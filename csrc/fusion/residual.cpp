// A product and its addition to a residual of the same shape: the projection adds it.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_residual(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const OpNode &node = graph.node(id);
        const auto *op = node.as<BinaryOp>();
        if (!node.is("binary") || op == nullptr || op->kind != BINARY_ADD) {
            continue;
        }
        for (size_t side : {1u, 0u}) {
            const std::optional<Producer> product = product_for(graph, id, node.arrays[side]);
            if (!product) {
                continue;
            }
            Projection fused = product->projection;
            fused.op.epilogue = PROJECTION_RESIDUAL;
            fused.residual = node.arrays[1 - side];
            fused.matrices[0].out = node.arrays[2];
            if (graph.replace({product->id, id}, fused.node())) {
                break;
            }
        }
    }
}

} // namespace kpx
