// A product and its addition to a residual of the same shape become a projection that adds the residual.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

void pass_residual(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<BinaryCall> sum = graph.node(id).as<BinaryCall>();
        if (!sum || sum->op().kind != BINARY_ADD) {
            continue;
        }
        for (bool second : {true, false}) {
            const std::optional<Producer> product = product_for(graph, id, second ? sum->b() : sum->a());
            if (!product) {
                continue;
            }
            Projection fused = product->projection;
            fused.op.epilogue = PROJECTION_RESIDUAL;
            fused.residual = second ? sum->a() : sum->b();
            fused.matrices[0].out = sum->out();
            if (graph.replace({product->id, id}, fused.node())) {
                break;
            }
        }
    }
}

} // namespace kpx
