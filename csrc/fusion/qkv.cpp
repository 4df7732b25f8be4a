// Two or three products of the same rows, such as those of hidden states with the
// matrices of queries, keys and values, become one projection with as many
// results.
#include "fusion/pass.hpp"
#include "fusion/projection_node.hpp"

namespace kpx {

namespace {

// The first products after `id`, the product p, that read the same x.
std::vector<Producer> others_of(const Graph &graph, Graph::Id id, const Projection &p) {
    std::vector<Producer> found;
    for (const Graph::Touch &touch : graph.uses_after(id, p.x)) {
        if (graph.node(touch.node).writes(touch.array) || found.size() + 1 == Projection::kMostMatrices) {
            break;
        }
        std::optional<Projection> other = projection_of(graph.node(touch.node));
        if (other && other->matrices.size() == 1 && p.joins(*other)) {
            found.push_back({touch.node, std::move(*other)});
        }
    }
    return found;
}

} // namespace

void pass_qkv(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<Projection> first = projection_of(graph.node(id));
        if (!first || !first->plain() || first->matrices.size() != 1) {
            continue;
        }
        const std::vector<Producer> others = others_of(graph, id, *first);
        for (size_t n = others.size(); n > 0; n--) {
            std::vector<Graph::Id> group{id};
            Projection fused = *first;
            for (size_t i = 0; i < n; i++) {
                group.push_back(others[i].id);
                fused.matrices.push_back(others[i].projection.matrices[0]);
            }
            if (graph.replace(group, fused.node())) {
                break;
            }
        }
    }
}

} // namespace kpx
