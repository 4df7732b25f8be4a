// Attention over pages of new tokens that do not see each other: paged_heads, and the paged_sdpa that is the only
// reader of its queries, become paged_step. Runs after paged_heads.
#include "fusion/pass.hpp"

namespace kpx {

void pass_paged_step(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<PagedSDPACall> sdpa = graph.node(id).as<PagedSDPACall>();
        if (!sdpa || (sdpa->q().dim(0) != 1 && sdpa->op().apart == 0)) {
            continue;
        }
        const std::optional<Graph::Touch> from = graph.producer(id, sdpa->q());
        const auto heads = from ? graph.node(from->node).as<PagedHeadsCall>() : std::nullopt;
        // It must read the pages that the tokens are written to.
        if (!heads || from->array != PagedHeadsCall::kOut || !same_view(heads->out(), sdpa->q()) ||
            !same_view(heads->keys(), sdpa->keys()) || !same_view(heads->values(), sdpa->values())) {
            continue;
        }
        using Fused = PagedStepCall;
        NodeOf<Fused> fused(PagedStepOp{heads->op(), sdpa->op().scale});
        static_assert(uint32_t(Fused::kTable) == PagedHeadsCall::kOut);
        for (uint32_t i = 0; i < PagedHeadsCall::kOut; i++) {
            fused.set(i, graph.node(from->node).arrays[i]); // its first operands are those of paged_heads
        }
        fused.set(Fused::kTable, sdpa->table()).set(Fused::kSequences, sdpa->sequences());
        fused.set(Fused::kLengths, sdpa->lengths()).set(Fused::kOut, sdpa->out());
        graph.replace({from->node, id}, std::move(fused.node));
    }
}

} // namespace kpx
