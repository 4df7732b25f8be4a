#include "fusion/projection_node.hpp"

namespace kpx {

bool Projection::joins(const Projection &other) const {
    return plain() && other.plain() && same_data(x, other.x) && x.dim(-1) == other.x.dim(-1) &&
           op.bits == other.op.bits && op.group_size == other.op.group_size &&
           bool(matrices[0].biases) == bool(other.matrices[0].biases);
}

OpNode Projection::node() const {
    using Call = ProjectionCall;
    NodeOf<Call> built(op);
    built.set(Call::kX, x).set(Call::kGain, gain).set(Call::kUp, up).set(Call::kResidual, residual);
    for (uint32_t i = 0; i < matrices.size(); i++) {
        const Matrix &m = matrices[i];
        const uint32_t first = i * Call::kGroupSize;
        built.set(first + Call::kW, m.w).set(first + Call::kScales, m.scales);
        built.set(first + Call::kBiases, m.biases).set(first + Call::kOut, m.out);
    }
    return built.node;
}

static std::optional<Projection> from_product(const QuantizedMatMulCall &call) {
    const QuantizedMatMulOp &op = call.op();
    const Array &x = call.x();
    if (op.transpose == 0 || x.rank == 0 || x.size() == 0) {
        return std::nullopt;
    }
    Projection p;
    p.op.group_size = op.group_size;
    p.op.bits = op.bits;
    p.op.epilogue = PROJECTION_STORE;
    p.x = x;
    p.matrices.push_back({call.w(), call.scales(), call.biases(), call.out()});
    return p;
}

std::optional<Projection> projection_of(const OpNode &node) {
    if (const auto product = node.as<QuantizedMatMulCall>()) {
        return from_product(*product);
    }
    const auto call = node.as<ProjectionCall>();
    if (!call) {
        return std::nullopt;
    }
    Projection p;
    p.op = call->op();
    p.x = call->x();
    p.gain = call->gain();
    p.up = call->up();
    p.residual = call->residual();
    for (uint32_t i = 0; i < ProjectionCall::kGroups && call->w(i); i++) {
        p.matrices.push_back({call->w(i), call->scales(i), call->biases(i), call->out(i)});
    }
    return p;
}

std::optional<Producer> product_for(const Graph &graph, Graph::Id reader, const Array &view) {
    const std::optional<Graph::Touch> from = graph.producer(reader, view);
    if (!from) {
        return std::nullopt;
    }
    std::optional<Projection> p = projection_of(graph.node(from->node));
    if (!p || p->op.epilogue != PROJECTION_STORE || p->matrices.size() != 1 || !same_data(p->matrices[0].out, view)) {
        return std::nullopt;
    }
    return Producer{from->node, std::move(*p)};
}

} // namespace kpx
