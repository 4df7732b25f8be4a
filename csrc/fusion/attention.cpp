// One new token through the attention of a layer: RMSNorm of the query and key
// heads, rotary position embedding, the new key and value into the cache, and
// attention over the cache become attention_step. The norms and the rotation may
// be absent.
#include <algorithm>

#include "fusion/heads.hpp"

namespace kpx {

namespace {

// The view as rows [H, D], where H is the one axis before the last that is longer than 1.
std::optional<Array> rows_of_heads(const Array &x) {
    if (!x || x.rank < 2) {
        return std::nullopt;
    }
    Array rows = x;
    rows.rank = 2;
    rows.shape = {1, x.dim(-1)};
    rows.strides = {x.dim(-1), x.stride(-1)};
    for (uint32_t i = 0; i + 1 < x.rank; i++) {
        if (x.shape[i] == 1) {
            continue;
        }
        if (rows.shape[0] != 1) {
            return std::nullopt;
        }
        rows.shape[0] = x.shape[i];
        rows.strides[0] = x.strides[i];
    }
    return rows;
}

bool same_rows(const Array &a, const Array &b) {
    const auto x = rows_of_heads(a), y = rows_of_heads(b);
    return x && y && same_view(*x, *y);
}

// How a query or key was made: perhaps by a rotation, perhaps with a norm before it.
struct Heads {
    Array rows; // [H, D], as the projection wrote it
    Graph::Id rope = Graph::kNone, norm = Graph::kNone;
};

// The node of Call's op that wrote exactly these rows as its operand `out`.
template <typename Call>
Graph::Id maker_of_rows(const Graph &graph, Graph::Id reader, const Array &rows, uint32_t out) {
    const std::optional<Graph::Touch> made = graph.producer(reader, rows);
    if (!made || !graph.node(made->node).as<Call>() || made->array != out || !same_rows(graph.array(*made), rows)) {
        return Graph::kNone;
    }
    return made->node;
}

std::optional<Heads> trace_heads(const Graph &graph, Graph::Id reader, const Array &x, bool norms) {
    Heads heads;
    Array turned = x;
    heads.rope = maker_of_rows<RoPECall>(graph, reader, x, RoPECall::kOut);
    if (heads.rope != Graph::kNone) {
        const RoPECall rope = *graph.node(heads.rope).as<RoPECall>();
        turned = rope.x();
        if (turned.dim(2) != 1 ||
            (rope.offset() && rope.offset().size() != 1)) { // its rows are not all at one position
            return std::nullopt;
        }
        reader = heads.rope;
    }
    heads.norm = norms ? maker_of_rows<RMSNormCall>(graph, reader, turned, RMSNormCall::kOut) : Graph::kNone;
    const auto rows =
        rows_of_heads(heads.norm != Graph::kNone ? graph.node(heads.norm).as<RMSNormCall>()->x() : turned);
    if (!rows) {
        return std::nullopt;
    }
    heads.rows = *rows;
    return heads;
}

// Whether both rotations use the same angles, or neither is rotated.
bool same_rotation(const Graph &graph, const Heads &q, const Heads &k) {
    if (q.rope == Graph::kNone || k.rope == Graph::kNone) {
        return q.rope == k.rope;
    }
    return same_angles(*graph.node(q.rope).as<RoPECall>(), *graph.node(k.rope).as<RoPECall>());
}

// The update by one token of a cache [1, H, capacity, D], of which `view` is what attention reads as keys or values.
Graph::Id cache_update(const Graph &graph, Graph::Id reader, const Array &view) {
    const std::optional<Graph::Touch> made = graph.producer(reader, view);
    const auto call = made ? graph.node(made->node).as<SliceUpdateCall>() : std::nullopt;
    if (!call || made->array != SliceUpdateCall::kDst) {
        return Graph::kNone;
    }
    const Array &cache = call->dst(), &update = call->update();
    if (cache.rank != 4 || view.rank != 4 || update.dim(2) != 1 || view.dim(2) > cache.dim(2)) {
        return Graph::kNone;
    }
    Array used = cache;
    used.shape[2] = view.dim(2);
    const bool whole = update.dim(0) == cache.dim(0) && update.dim(1) == cache.dim(1) && update.dim(3) == cache.dim(3);
    return whole && same_view(used, view) ? made->node : Graph::kNone;
}

// Where both updates start, if they start at the same place.
bool same_start(const SliceUpdateCall &keys, const SliceUpdateCall &values) {
    return same_optional(keys.start(), values.start()) &&
           (keys.start() || keys.op().start[2] == values.op().start[2]) && keys.dst().dim(2) == values.dst().dim(2);
}

AttentionStepOp params_of(const Graph &graph, const Heads &q, const Heads &k, const SliceUpdateCall &keys,
                          const SDPACall &sdpa) {
    AttentionStepOp op{};
    set_norms(graph, q, k, op);
    op.base = op.rope_scale = 1;
    if (q.rope != Graph::kNone) {
        const RoPEOp &rope = graph.node(q.rope).as<RoPECall>()->op();
        op.dims = rope.dims;
        op.traditional = rope.traditional;
        op.base = rope.base;
        op.rope_scale = rope.scale;
        op.position = rope.offset;
    }
    op.start = keys.op().start[2];
    op.keys = uint32_t(sdpa.k().dim(2));
    op.scale = sdpa.op().scale;
    return op;
}

bool fuse_attention(Graph &graph, Graph::Id id, bool norms) {
    const SDPACall sdpa = *graph.node(id).as<SDPACall>();
    const Graph::Id keys_id = cache_update(graph, id, sdpa.k());
    const Graph::Id values_id = cache_update(graph, id, sdpa.v());
    if (keys_id == Graph::kNone || values_id == Graph::kNone || keys_id == values_id) {
        return false;
    }
    const SliceUpdateCall keys = *graph.node(keys_id).as<SliceUpdateCall>();
    const SliceUpdateCall values = *graph.node(values_id).as<SliceUpdateCall>();
    const auto q = trace_heads(graph, id, sdpa.q(), norms);
    const auto k = trace_heads(graph, keys_id, keys.update(), norms);
    const auto v = rows_of_heads(values.update()), to = rows_of_heads(sdpa.out());
    if (!q || !k || !v || !to || !same_start(keys, values) || !same_rotation(graph, *q, *k) ||
        overlaps(keys.dst(), values.dst())) {
        return false;
    }
    using Step = AttentionStepCall;
    NodeOf<Step> step(params_of(graph, *q, *k, keys, sdpa));
    step.set(Step::kQ, q->rows).set(Step::kK, k->rows).set(Step::kV, *v).set(Step::kOut, *to);
    step.set(Step::kKeys, keys.dst()).set(Step::kValues, values.dst()).set(Step::kStart, keys.start());
    step.set(Step::kKeyLength, sdpa.key_length());
    if (q->norm != Graph::kNone) {
        step.set(Step::kQGain, graph.node(q->norm).as<RMSNormCall>()->weight());
    }
    if (k->norm != Graph::kNone) {
        step.set(Step::kKGain, graph.node(k->norm).as<RMSNormCall>()->weight());
    }
    if (q->rope != Graph::kNone) {
        const RoPECall rope = *graph.node(q->rope).as<RoPECall>();
        step.set(Step::kPosition, rope.offset()).set(Step::kFreqs, rope.freqs());
    }
    std::vector<Graph::Id> group = {q->norm, k->norm, q->rope, k->rope, keys_id, values_id, id};
    group.erase(std::remove(group.begin(), group.end(), Graph::kNone), group.end());
    return graph.replace(std::move(group), std::move(step.node));
}

} // namespace

void pass_attention(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const std::optional<SDPACall> call = graph.node(id).as<SDPACall>();
        if (!call || call->mask() || call->q().dim(0) != 1 || call->q().dim(2) != 1) {
            continue;
        }
        if (!fuse_attention(graph, id, true)) {
            fuse_attention(graph, id, false); // something else may read the normed heads
        }
    }
}

} // namespace kpx
