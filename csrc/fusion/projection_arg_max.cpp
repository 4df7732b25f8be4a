// The index of the largest of the products of a row, where nobody wants to see
// the products themselves: the projection finds it on the way, as that of the
// next token among the logits of a vocabulary. Runs after norm_projection.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_projection_arg_max(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const OpNode &node = graph.node(id);
        const auto *op = node.as<ReduceOp>();
        if (!node.is("reduce") || op == nullptr || op->kind != REDUCE_ARG_MAX || node.arrays[0].rank == 0 ||
            node.arrays[0].size() != node.arrays[0].dim(-1)) {
            continue;
        }
        const std::optional<Producer> product = product_for(graph, id, node.arrays[0]);
        if (!product) {
            continue;
        }
        Projection fused = product->projection;
        fused.op.epilogue = PROJECTION_ARG_MAX;
        fused.op.dtype = node.arrays[0].dtype;
        fused.matrices[0].out = node.arrays[1];
        graph.replace({product->id, id}, fused.node());
    }
}

} // namespace kpx
