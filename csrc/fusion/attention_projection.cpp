// Attention of one new token and the product that alone reads it: one op, so that
// the product can put together what several workgroups have of the same heads.
// Runs after the passes that make both.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_attention_projection(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<Projection> product = projection_of(graph.node(id));
        if (!product || product->op.norm != 0 || product->matrices.size() != 1) {
            continue;
        }
        const std::optional<Graph::Touch> from = graph.producer(id, product->x);
        if (!from || !graph.node(from->node).is("attention_step")) {
            continue;
        }
        const OpNode &step = graph.node(from->node);
        if (!same_data(step.arrays.back(), product->x)) {
            continue;
        }
        NodeBuilder fused("attention_projection", AttentionProjectionOp{*step.as<AttentionStepOp>(), product->op});
        for (size_t i = 0; i + 1 < step.arrays.size(); i++) {
            if (step.writes(i)) {
                fused.update(step.arrays[i]);
            } else {
                fused.read(step.arrays[i]);
            }
        }
        const Projection::Matrix &m = product->matrices[0];
        fused.read(product->residual).read(m.w).read(m.scales).read(m.biases).write(m.out);
        graph.replace({from->node, id}, std::move(fused.node));
    }
}

} // namespace kpx
