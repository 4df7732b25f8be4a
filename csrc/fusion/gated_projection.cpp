// SiLU(gate) * up and the projection that is its only reader become a projection that computes these products itself:
// the second half of a gated MLP, where one matrix gives the gate and up.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_gated_projection(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const auto gated = made_rows<SiLUMulCall>(graph, id, SiLUMulCall::kGate);
        if (!gated) {
            continue;
        }
        Projection fused = gated->projection;
        fused.x = gated->call.gate();
        fused.up = gated->call.up();
        graph.replace({gated->id, id}, fused.node());
    }
}

} // namespace kpx
