// SiLU(gate) * up and the projection that is its only reader become a projection that computes these products itself:
// the second half of a gated MLP, where one matrix gives the gate and up.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_gated_projection(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        std::optional<Projection> fused = projection_of(graph.node(id));
        if (!fused || !fused->plain_x()) {
            continue;
        }
        const std::optional<Graph::Touch> from = graph.producer(id, fused->x);
        if (!from) {
            continue;
        }
        const std::optional<SiLUMulCall> gated = graph.node(from->node).as<SiLUMulCall>();
        // If the product divides rows into several, gate and up have other rows than x.
        if (!gated || !same_data(gated->out(), fused->x) || gated->gate().rank == 0 ||
            gated->gate().dim(-1) != fused->x.dim(-1)) {
            continue;
        }
        fused->x = gated->gate();
        fused->up = gated->up();
        graph.replace({from->node, id}, fused->node());
    }
}

} // namespace kpx
