// The products that make the heads of new tokens, and paged_heads or paged_step, which is their only reader, become
// qkv_heads. Runs after norm_projection.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

namespace {

// What paged_heads and paged_step have in common.
struct HeadsNode {
    const OpNode &node; // whose first operands are those of paged_heads
    PagedHeadsOp heads;
    const PagedStepCall *step;

    const Array &at(uint32_t i) const { return node.arrays[i]; }
};

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

OpNode fused_node(const HeadsNode &of, const Projection &p) {
    using Fused = QKVHeadsCall;
    NodeOf<Fused> fused(QKVHeadsOp{p.op, of.heads, of.step ? of.step->op().scale : 0});
    fused.set(Fused::kX, p.x).set(Fused::kGain, p.gain);
    static_assert(uint32_t(Fused::kValues) - Fused::kQGain == PagedHeadsCall::kValues - PagedHeadsCall::kQGain);
    for (uint32_t i = 0; i <= PagedHeadsCall::kValues - PagedHeadsCall::kQGain; i++) {
        fused.set(Fused::kQGain + i, of.at(PagedHeadsCall::kQGain + i));
    }
    if (of.step) {
        fused.set(Fused::kTable, of.step->table()).set(Fused::kSequences, of.step->sequences());
        fused.set(Fused::kLengths, of.step->lengths());
    }
    fused.set(Fused::kOut, of.step ? of.step->out() : of.at(PagedHeadsCall::kOut));
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
        const auto heads = node.as<PagedHeadsCall>();
        const auto step = node.as<PagedStepCall>();
        if (!heads && !step) {
            continue;
        }
        if (const std::optional<Producer> products = products_for(graph, id, node)) {
            const HeadsNode of{node, heads ? heads->op() : step->op().heads, step ? &*step : nullptr};
            graph.replace({products->id, id}, fused_node(of, products->projection));
        }
    }
}

} // namespace kpx
