// RMSNorm of rows and the projection that is their only reader become a
// projection that normalises. Runs after the passes that join several products in
// one projection.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_norm_projection(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        std::optional<Projection> fused = projection_of(graph.node(id));
        if (!fused || !fused->plain_x()) {
            continue;
        }
        const std::optional<Graph::Touch> from = graph.producer(id, fused->x);
        if (!from) {
            continue;
        }
        const std::optional<RMSNormCall> norm = graph.node(from->node).as<RMSNormCall>();
        // If the product divides rows into several, their norms are different ones.
        if (!norm || !same_data(norm->out(), fused->x) || norm->x().rank == 0 ||
            norm->x().dim(-1) != fused->x.dim(-1)) {
            continue;
        }
        fused->op.norm = 1;
        fused->op.eps = norm->op().eps;
        fused->x = norm->x();
        fused->gain = norm->weight();
        graph.replace({from->node, id}, fused->node());
    }
}

} // namespace kpx
