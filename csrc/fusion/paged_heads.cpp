// Prepares tokens of many sequences for attention over pages: RMSNorm of the
// query and key heads, rotary position embedding, and writing the new keys and
// values into their pages become paged_heads. The norms may be absent. Attention
// over one page, as of a session's prompt, may also be sdpa.
#include <algorithm>
#include <utility>

#include "fusion/heads.hpp"

namespace kpx {

namespace {

// The node of Call's op that wrote exactly this data as its operand `out`.
template <typename Call> Graph::Id maker_of_data(const Graph &graph, Graph::Id reader, const Array &x, uint32_t out) {
    const std::optional<Graph::Touch> made = graph.producer(reader, x);
    if (!made || !graph.node(made->node).as<Call>() || made->array != out || !same_data(graph.array(*made), x)) {
        return Graph::kNone;
    }
    return made->node;
}

// x as [rows, heads, D] without moving elements. Rows may be parts of wider ones, as where one product gives queries,
// keys and values.
std::optional<Array> as_rows(const Array &x, int64_t rows, int64_t heads) {
    const int64_t d = x.size() / std::max<int64_t>(1, rows * heads);
    Array out = x;
    out.rank = 3;
    out.shape = {rows, heads, d};
    out.strides = {heads * d, d, 1};
    if (x.contiguous()) {
        return out;
    }
    for (uint32_t i = 3, axis = x.rank; i-- > 0;) { // the same axes, apart from those of length 1
        if (out.shape[i] == 1) {
            continue;
        }
        while (axis > 0 && x.shape[axis - 1] == 1) {
            axis--;
        }
        if (axis == 0 || x.shape[axis - 1] != out.shape[i]) {
            return std::nullopt;
        }
        out.strides[i] = x.strides[--axis];
    }
    return out.strides[2] == 1 ? std::optional(out) : std::nullopt;
}

// How a query or key was made: by a rotation, perhaps with a norm before it.
struct TokenHeads {
    Array from; // [R, H, D]
    Graph::Id rope, norm;
};

std::optional<TokenHeads> trace(const Graph &graph, Graph::Id reader, const Array &x, bool norms) {
    if (x.rank != 3) {
        return std::nullopt;
    }
    TokenHeads h{{}, maker_of_data<RoPECall>(graph, reader, x, RoPECall::kOut), Graph::kNone};
    if (h.rope == Graph::kNone) {
        return std::nullopt;
    }
    Array from = graph.node(h.rope).as<RoPECall>()->x();
    // Each row must be a sequence of one step.
    if (from.dim(2) != 1 || from.dim(0) != x.dim(0) || from.dim(1) != x.dim(1)) {
        return std::nullopt;
    }
    h.norm = norms ? maker_of_data<RMSNormCall>(graph, h.rope, from, RMSNormCall::kOut) : Graph::kNone;
    if (h.norm != Graph::kNone) {
        const Array &before = graph.node(h.norm).as<RMSNormCall>()->x();
        if (before.rank == 0 || before.dim(-1) != x.dim(2)) {
            return std::nullopt;
        }
        from = before;
    }
    const auto rows = as_rows(from, x.dim(0), x.dim(1));
    if (!rows) {
        return std::nullopt;
    }
    h.from = *rows;
    return h;
}

// The update of the pages, all of which attention reads.
Graph::Id pages_update(const Graph &graph, Graph::Id reader, const Array &pages) {
    const std::optional<Graph::Touch> made = graph.producer(reader, pages);
    const auto call = made ? graph.node(made->node).as<PagedUpdateCall>() : std::nullopt;
    return call && same_view(call->pages(), pages) ? made->node : Graph::kNone;
}

PagedHeadsOp params_of(const Graph &graph, const TokenHeads &q, const TokenHeads &k) {
    PagedHeadsOp op{};
    set_norms(graph, q, k, op);
    const RoPEOp &rope = graph.node(q.rope).as<RoPECall>()->op();
    op.dims = rope.dims;
    op.traditional = rope.traditional;
    op.base = rope.base;
    op.rope_scale = rope.scale;
    op.position = rope.offset;
    return op;
}

// What attention reads.
struct Reader {
    Array q; // [R, H, D]
    Array keys, values;
};

std::optional<Reader> reader_of(const OpNode &node) {
    if (const auto paged = node.as<PagedSDPACall>()) {
        return Reader{paged->q(), paged->keys(), paged->values()};
    }
    const auto sdpa = node.as<SDPACall>();
    if (!sdpa || sdpa->q().rank != 4 || sdpa->q().dim(0) != 1) {
        return std::nullopt;
    }
    Reader out{sdpa->q(), sdpa->k(), sdpa->v()};
    out.q.rank = 3;
    for (const auto &[to, from] : {std::pair(0u, 2u), std::pair(1u, 1u), std::pair(2u, 3u)}) {
        out.q.shape[to] = sdpa->q().shape[from];
        out.q.strides[to] = sdpa->q().strides[from];
    }
    return out;
}

bool fuse_paged_heads(Graph &graph, Graph::Id id, bool norms) {
    const Reader attention = *reader_of(graph.node(id));
    const Graph::Id keys_id = pages_update(graph, id, attention.keys),
                    values_id = pages_update(graph, id, attention.values);
    if (keys_id == Graph::kNone || values_id == Graph::kNone || keys_id == values_id ||
        overlaps(attention.keys, attention.values)) {
        return false;
    }
    const PagedUpdateCall keys = *graph.node(keys_id).as<PagedUpdateCall>();
    const PagedUpdateCall values = *graph.node(values_id).as<PagedUpdateCall>();
    const auto q = trace(graph, id, attention.q, norms), k = trace(graph, keys_id, keys.rows(), norms);
    if (!q || !k || !same_view(keys.slots(), values.slots())) {
        return false;
    }
    const RoPECall rope = *graph.node(q->rope).as<RoPECall>();
    if (!same_angles(rope, *graph.node(k->rope).as<RoPECall>())) {
        return false;
    }
    using Fused = PagedHeadsCall;
    NodeOf<Fused> fused(params_of(graph, *q, *k));
    fused.set(Fused::kQ, q->from).set(Fused::kK, k->from).set(Fused::kV, values.rows());
    fused.set(Fused::kPosition, rope.offset()).set(Fused::kFreqs, rope.freqs()).set(Fused::kSlots, keys.slots());
    fused.set(Fused::kKeys, keys.pages()).set(Fused::kValues, values.pages()).set(Fused::kOut, attention.q);
    if (q->norm != Graph::kNone) {
        fused.set(Fused::kQGain, graph.node(q->norm).as<RMSNormCall>()->weight());
    }
    if (k->norm != Graph::kNone) {
        fused.set(Fused::kKGain, graph.node(k->norm).as<RMSNormCall>()->weight());
    }
    std::vector<Graph::Id> group = {q->norm, k->norm, q->rope, k->rope, keys_id, values_id};
    group.erase(std::remove(group.begin(), group.end(), Graph::kNone), group.end());
    return graph.replace(std::move(group), std::move(fused.node));
}

} // namespace

void pass_paged_heads(Graph &graph) {
    for (Graph::Id id = graph.next(Graph::kNone); id != Graph::kNone; id = graph.next(id)) {
        if (!reader_of(graph.node(id))) {
            continue;
        }
        if (!fuse_paged_heads(graph, id, true)) {
            fuse_paged_heads(graph, id, false); // something else may read the normed heads
        }
    }
}

} // namespace kpx
