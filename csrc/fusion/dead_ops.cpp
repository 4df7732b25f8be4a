// Removes ops of a region whose results are never used: tensors that the
// captured function made and neither read nor kept. Eager work is left alone: a
// caller who enqueues an op once, for example to time it, wants it to run.
#include "fusion/pass.hpp"

namespace kpx {

void pass_dead_ops(Graph &graph) {
    if (!graph.replayed()) {
        return;
    }
    // Backwards, so that ops whose only reader was dead are themselves dead when their turn comes.
    for (Graph::Id id = graph.previous(Graph::kNone); id != Graph::kNone; id = graph.previous(id)) {
        graph.remove(id);
    }
}

} // namespace kpx
