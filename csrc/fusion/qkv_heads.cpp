// The products that make the heads of new tokens, and paged_heads or paged_step, which is their only reader, become
// qkv_heads. Runs after norm_projection.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

namespace {

// The projection whose results are q, k and v.
std::optional<Producer> products_for(const Graph &graph, Graph::Id id, const OpNode &heads) {
    const std::optional<Graph::Touch> from = graph.producer(id, heads.arrays[PagedHeadsCall::kQ]);
    std::optional<Projection> p = from ? projection_of(graph.node(from->node)) : std::nullopt;
    if (!p || p->op.norm == 0 || p->op.epilogue != PROJECTION_STORE || p->matrices.size() != QKVHeadsCall::kGroups) {
        return std::nullopt;
    }
    for (uint32_t i = 0; i < QKVHeadsCall::kGroups; i++) {
        if (!same_data(p->matrices[i].out, heads.arrays[PagedHeadsCall::kQ + i])) {
            return std::nullopt;
        }
    }
    return Producer{from->node, std::move(*p)};
}

// heads: paged_heads or paged_step, whose first operands are those of paged_heads.
OpNode fused_node(const OpNode &heads, const Projection &p) {
    using Fused = QKVHeadsCall;
    const std::optional<PagedStepCall> step = heads.as<PagedStepCall>();
    NodeOf<Fused> fused(step ? QKVHeadsOp{p.op, step->op().heads, step->op().scale}
                             : QKVHeadsOp{p.op, heads.as<PagedHeadsCall>()->op(), 0});
    fused.set(Fused::kX, p.x).set(Fused::kGain, p.gain);
    static_assert(uint32_t(Fused::kValues) - Fused::kQGain == PagedHeadsCall::kValues - PagedHeadsCall::kQGain);
    for (uint32_t i = 0; i <= PagedHeadsCall::kValues - PagedHeadsCall::kQGain; i++) {
        fused.set(Fused::kQGain + i, heads.arrays[PagedHeadsCall::kQGain + i]);
    }
    if (step) {
        fused.set(Fused::kTable, step->table()).set(Fused::kSequences, step->sequences());
        fused.set(Fused::kLengths, step->lengths());
    }
    fused.set(Fused::kOut, heads.arrays[step ? uint32_t(PagedStepCall::kOut) : uint32_t(PagedHeadsCall::kOut)]);
    for (uint32_t i = 0; i < Fused::kGroups; i++) {
        const uint32_t first = i * Fused::kGroupSize;
        fused.set(first + Fused::kW, p.matrices[i].w).set(first + Fused::kScales, p.matrices[i].scales);
        fused.set(first + Fused::kBiases, p.matrices[i].biases);
    }
    return std::move(fused.node);
}

} // namespace

void pass_qkv_heads(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const OpNode &node = graph.node(id);
        if (!node.as<PagedHeadsCall>() && !node.as<PagedStepCall>()) {
            continue;
        }
        if (const std::optional<Producer> products = products_for(graph, id, node)) {
            graph.replace({products->id, id}, fused_node(node, products->projection));
        }
    }
}

} // namespace kpx
