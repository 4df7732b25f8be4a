// An arg_max, or greedy, that is the only reader of a row's products becomes part of their
// projection, which then stores the index alone: for example the next token,
// without the logits of the vocabulary. Runs after norm_projection.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_projection_arg_max(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<ReduceCall> call = graph.node(id).as<ReduceCall>();
        if (!call || call->x().rank == 0 || call->x().size() != call->x().dim(-1)) {
            continue;
        }
        const uint32_t kind = call->op().kind;
        if (kind != REDUCE_ARG_MAX && kind != REDUCE_GREEDY) {
            continue;
        }
        const std::optional<Producer> product = product_for(graph, id, call->x());
        if (!product) {
            continue;
        }
        Projection fused = product->projection;
        fused.op.epilogue = kind == REDUCE_GREEDY ? PROJECTION_GREEDY : PROJECTION_ARG_MAX;
        fused.op.dtype = call->x().dtype;
        fused.matrices[0].out = call->out();
        graph.replace({product->id, id}, fused.node());
    }
}

} // namespace kpx
