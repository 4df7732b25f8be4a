// Attention of one new token and the product that is its only reader become one
// op, so that the product can combine the results of several workgroups for the
// same heads. Runs after the passes that make both.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_attention_projection(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<Projection> product = projection_of(graph.node(id));
        if (!product || !product->plain_x() || product->matrices.size() != 1 ||
            product->x.size() != product->x.dim(-1)) {
            continue;
        }
        const std::optional<Graph::Touch> from = graph.producer(id, product->x);
        if (!from) {
            continue;
        }
        const std::optional<AttentionStepCall> step = graph.node(from->node).as<AttentionStepCall>();
        if (!step || !same_data(step->out(), product->x)) {
            continue;
        }
        using Fused = AttentionProjectionCall;
        NodeOf<Fused> fused(AttentionProjectionOp{step->op(), product->op});
        static_assert(uint32_t(Fused::kQ) == AttentionStepCall::kQ &&
                      uint32_t(Fused::kValues) == AttentionStepCall::kValues);
        for (uint32_t i = 0; i < AttentionStepCall::kOut; i++) {
            fused.set(i, graph.node(from->node).arrays[i]); // its first operands are those of the step
        }
        const Projection::Matrix &m = product->matrices[0];
        fused.set(Fused::kResidual, product->residual).set(Fused::kW, m.w).set(Fused::kScales, m.scales);
        fused.set(Fused::kBiases, m.biases).set(Fused::kOut, m.out);
        graph.replace({from->node, id}, std::move(fused.node));
    }
}

} // namespace kpx
