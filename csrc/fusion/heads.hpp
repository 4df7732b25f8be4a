// What the passes over query and key heads have in common.
#pragma once

#include "fusion/pass.hpp"

namespace kpx {

inline bool same_optional(const Array &a, const Array &b) {
    return bool(a) == bool(b) && (!a || same_view(a, b));
}

// Whether both rotations use the same angles.
inline bool same_angles(const RoPECall &a, const RoPECall &b) {
    const RoPEOp &x = a.op(), &y = b.op();
    return x.dims == y.dims && x.traditional == y.traditional && x.base == y.base && x.scale == y.scale &&
           (a.offset() || x.offset == y.offset) && same_optional(a.offset(), b.offset()) &&
           same_optional(a.freqs(), b.freqs());
}

// The norms of heads in the parameters of the fused op. Heads has `norm`, a node or kNone.
template <typename Op, typename Heads> void set_norms(const Graph &graph, const Heads &q, const Heads &k, Op &op) {
    const auto set = [&](Graph::Id id, uint32_t &is_there, float &eps) {
        const auto call = id != Graph::kNone ? graph.node(id).as<RMSNormCall>() : std::nullopt;
        is_there = call.has_value();
        eps = call ? call->op().eps : 0;
    };
    set(q.norm, op.q_norm, op.q_eps);
    set(k.norm, op.k_norm, op.k_eps);
}

} // namespace kpx
