// One new token through the attention of a layer: RMSNorm of the query and key
// heads, rotary position embedding, the new key and value into the cache, and
// attention over the cache become attention_step. The norms may lack, and so may
// the rotation.
#include <algorithm>

#include "fusion/pass.hpp"
#include "ops/op_params.h"

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

bool same_optional(const Array &a, const Array &b) {
    return bool(a) == bool(b) && (!a || same_view(a, b));
}

// Where a query or key comes from: perhaps a rotation, perhaps a norm before it.
struct Heads {
    Array rows; // [H, D], as the projection wrote it
    Graph::Id rope = Graph::kNone, norm = Graph::kNone;
};

// The op of that name that wrote just these rows, array `out` of it.
Graph::Id maker(const Graph &graph, Graph::Id reader, const Array &rows, const char *op, size_t out) {
    const std::optional<Graph::Touch> made = graph.producer(reader, rows);
    if (!made || !graph.node(made->node).is(op) || made->array != out || !same_rows(graph.array(*made), rows)) {
        return Graph::kNone;
    }
    return made->node;
}

std::optional<Heads> trace_heads(const Graph &graph, Graph::Id reader, const Array &x, bool norms) {
    Heads heads;
    heads.rope = maker(graph, reader, x, "rope", 3);
    if (heads.rope != Graph::kNone) {
        const OpNode &rope = graph.node(heads.rope);
        if (rope.as<RoPEOp>() == nullptr || rope.arrays[0].dim(2) != 1) { // its rows are not all at one position
            return std::nullopt;
        }
        reader = heads.rope;
    }
    const Array &turned = heads.rope != Graph::kNone ? graph.node(heads.rope).arrays[0] : x;
    heads.norm = norms ? maker(graph, reader, turned, "rms_norm", 2) : Graph::kNone;
    const auto rows = rows_of_heads(heads.norm != Graph::kNone ? graph.node(heads.norm).arrays[0] : turned);
    if (!rows) {
        return std::nullopt;
    }
    heads.rows = *rows;
    return heads;
}

// The two rotations are by the same angles, or there is none.
bool same_rotation(const Graph &graph, const Heads &q, const Heads &k) {
    if (q.rope == Graph::kNone || k.rope == Graph::kNone) {
        return q.rope == k.rope;
    }
    const OpNode &a = graph.node(q.rope), &b = graph.node(k.rope);
    const auto *x = a.as<RoPEOp>(), *y = b.as<RoPEOp>();
    return x && y && x->dims == y->dims && x->traditional == y->traditional && x->base == y->base &&
           x->scale == y->scale && (a.arrays[1] || x->offset == y->offset) && same_optional(a.arrays[1], b.arrays[1]) &&
           same_optional(a.arrays[2], b.arrays[2]);
}

// The update of a cache [1, H, capacity, D] by one token, of which attention reads `view` as its keys or values.
Graph::Id cache_update(const Graph &graph, Graph::Id reader, const Array &view) {
    const std::optional<Graph::Touch> made = graph.producer(reader, view);
    if (!made || !graph.node(made->node).is("slice_update") || made->array != 0) {
        return Graph::kNone;
    }
    const OpNode &node = graph.node(made->node);
    const Array &cache = node.arrays[0], &update = node.arrays[1];
    if (cache.rank != 4 || view.rank != 4 || update.dim(2) != 1 || view.dim(2) > cache.dim(2)) {
        return Graph::kNone;
    }
    Array used = cache;
    used.shape[2] = view.dim(2);
    const bool whole = update.dim(0) == cache.dim(0) && update.dim(1) == cache.dim(1) && update.dim(3) == cache.dim(3);
    return whole && same_view(used, view) ? made->node : Graph::kNone;
}

// Where both updates start, if that is one place.
bool same_start(const OpNode &keys, const OpNode &values) {
    const auto *a = keys.as<SliceUpdateOp>(), *b = values.as<SliceUpdateOp>();
    return a && b && same_optional(keys.arrays[2], values.arrays[2]) &&
           (keys.arrays[2] || a->start[2] == b->start[2]) && keys.arrays[0].dim(2) == values.arrays[0].dim(2);
}

AttentionStepOp params_of(const Graph &graph, const Heads &q, const Heads &k, const OpNode &keys, const OpNode &sdpa) {
    AttentionStepOp op{};
    const auto norm = [&](Graph::Id id, uint32_t &is_there, float &eps) {
        const auto *params = id != Graph::kNone ? graph.node(id).as<RMSNormOp>() : nullptr;
        is_there = params != nullptr;
        eps = params ? params->eps : 0;
    };
    norm(q.norm, op.q_norm, op.q_eps);
    norm(k.norm, op.k_norm, op.k_eps);
    op.base = op.rope_scale = 1;
    if (q.rope != Graph::kNone) {
        const auto *rope = graph.node(q.rope).as<RoPEOp>();
        op.dims = rope->dims;
        op.traditional = rope->traditional;
        op.base = rope->base;
        op.rope_scale = rope->scale;
        op.position = rope->offset;
    }
    op.start = keys.as<SliceUpdateOp>()->start[2];
    op.keys = uint32_t(sdpa.arrays[1].dim(2));
    op.scale = sdpa.as<SDPAOp>()->scale;
    return op;
}

bool fuse(Graph &graph, Graph::Id id, bool norms) {
    const OpNode &sdpa = graph.node(id);
    const Array &out = sdpa.arrays[5];
    const Graph::Id keys_id = cache_update(graph, id, sdpa.arrays[1]);
    const Graph::Id values_id = cache_update(graph, id, sdpa.arrays[2]);
    if (keys_id == Graph::kNone || values_id == Graph::kNone || keys_id == values_id) {
        return false;
    }
    const OpNode &keys = graph.node(keys_id), &values = graph.node(values_id);
    const auto q = trace_heads(graph, id, sdpa.arrays[0], norms);
    const auto k = trace_heads(graph, keys_id, keys.arrays[1], norms);
    const auto v = rows_of_heads(values.arrays[1]), to = rows_of_heads(out);
    if (!q || !k || !v || !to || !same_start(keys, values) || !same_rotation(graph, *q, *k) ||
        overlaps(keys.arrays[0], values.arrays[0])) {
        return false;
    }
    const Array none;
    const auto array = [&](Graph::Id node, size_t i) -> const Array & {
        return node != Graph::kNone ? graph.node(node).arrays[i] : none;
    };
    NodeBuilder step("attention_step", params_of(graph, *q, *k, keys, sdpa));
    step.read(q->rows).read(k->rows).read(*v).read(array(q->norm, 1)).read(array(k->norm, 1));
    step.read(array(q->rope, 1)).read(keys.arrays[2]).read(sdpa.arrays[4]).read(array(q->rope, 2));
    step.update(keys.arrays[0]).update(values.arrays[0]).write(*to);
    std::vector<Graph::Id> group = {q->norm, k->norm, q->rope, k->rope, keys_id, values_id, id};
    group.erase(std::remove(group.begin(), group.end(), Graph::kNone), group.end());
    return graph.replace(std::move(group), std::move(step.node));
}

} // namespace

void pass_attention(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        const OpNode &node = graph.node(id);
        if (!node.is("sdpa") || node.as<SDPAOp>() == nullptr || node.arrays.size() != 6 || node.arrays[3] ||
            node.arrays[0].dim(0) != 1 || node.arrays[0].dim(2) != 1) {
            continue;
        }
        if (!fuse(graph, id, true)) {
            fuse(graph, id, false); // somebody may want to see the normed heads
        }
    }
}

} // namespace kpx
