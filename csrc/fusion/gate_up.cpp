// SiLU(x * gate) * (x * up), the first half of a gated MLP: becomes one
// projection that reads both matrices and stores one row.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_gate_up(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<SiLUMulCall> call = graph.node(id).as<SiLUMulCall>();
        if (!call) {
            continue;
        }
        const std::optional<Producer> gate = product_for(graph, id, call->gate());
        const std::optional<Producer> up = product_for(graph, id, call->up());
        if (!gate || !up || gate->id == up->id || !gate->projection.joins(up->projection)) {
            continue;
        }
        Projection fused = gate->projection;
        fused.op.epilogue = PROJECTION_SILU_MUL;
        fused.matrices.push_back(up->projection.matrices[0]);
        fused.matrices[0].out = call->out();
        fused.matrices[1].out = Array{};
        graph.replace({gate->id, up->id, id}, fused.node());
    }
}

} // namespace kpx
