// Ops of a region whose results nobody sees: tensors that the captured function
// made and neither read nor kept. Eager work is left alone, since whoever
// enqueues an op once, to time it for one, wants it to run.
#include "fusion/pass.hpp"

namespace kpx {

void pass_dead_ops(Graph &graph) {
    if (!graph.replayed()) {
        return;
    }
    // From the end, so that what only fed a dead op is dead when its turn comes.
    for (Graph::Id id = graph.previous(Graph::kNone); id != Graph::kNone; id = graph.previous(id)) {
        graph.remove(id);
    }
}

} // namespace kpx
