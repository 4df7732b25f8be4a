// Arrays: q, k, v, q_gain?, k_gain?, position?, start?, key_length?, freqs?, keys, values, residual?, w, scales,
// biases, out. Attention of one new token and the product of what it gives: two dispatches. Where several workgroups
// share the keys of a head, the product puts their parts together while it reads them, which saves attention the wait
// of the last workgroup for the others.
#include "ops/attention_step.hpp"
#include "ops/lowering_util.hpp"
#include "ops/projection.hpp"

namespace kpx {

// Every workgroup of the product reads the parts of all splits, so that more of them cost more there.
constexpr uint32_t kMostParts = 8;

Support lower_attention_projection(Lowering &lowering, const OpCall &call) {
    constexpr uint32_t kStep = AttentionStepOperands::kCount;
    if (Support ok = check_call<AttentionProjectionOp>(call, kStep + 5, 0x1f8 | 1u << kStep); !ok.ok()) {
        return ok;
    }
    const auto &op = *call.as<AttentionProjectionOp>();
    const AttentionStepOperands step{call.arrays};
    if (Support ok = check_attention_step(lowering, op.step, step); !ok.ok()) {
        return ok;
    }
    const uint32_t splits = attention_splits(op.step, kMostParts);
    const int64_t heads = step.q().dim(0), d = step.q().dim(1);
    if (op.projection.norm != 0 || d % 8 != 0) {
        return unsupported("a norm of what attention gives, or heads of %lld elements", (long long)d);
    }
    const Array row = splits > 1 ? lowering.scratch(DT_FLOAT32, {heads, splits, d + 4})
                                 : lowering.scratch(step.q().dtype, {heads, d});
    const Array none;
    const ProjectionOperands m{row, none,      call.arrays[kStep],   call.arrays + kStep + 1,
                               1,   heads * d, {splits, uint32_t(d)}};
    if (Support ok = check_projection(lowering, op.projection, m); !ok.ok()) {
        return ok;
    }
    if (splits > 1) {
        dispatch_attention_parts(lowering, op.step, step, row, splits);
    } else {
        dispatch_attention_step(lowering, op.step, step, row);
    }
    dispatch_projection(lowering, op.projection, m);
    return supported();
}

} // namespace kpx
