// RMSNorm of rows and the projection that is their only reader become a
// projection that normalises. Runs after the passes that join several products in
// one projection.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_norm_projection(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const auto normed = made_rows<RMSNormCall>(graph, id, RMSNormCall::kX);
        if (!normed) {
            continue;
        }
        Projection fused = normed->projection;
        fused.op.norm = 1;
        fused.op.eps = normed->call.op().eps;
        fused.x = normed->call.x();
        fused.gain = normed->call.weight();
        graph.replace({normed->id, id}, fused.node());
    }
}

} // namespace kpx
