// Attention of one new token and the product with its result: two dispatches. If several workgroups share the keys of
// a head, the product combines their partial results while it reads them, so that no workgroup of attention has to
// wait for the others.
#include "ops/attention_step.hpp"
#include "ops/lowering_util.hpp"
#include "ops/projection.hpp"

namespace kpx {

// Every workgroup of the product reads the partial results of all splits. With four of them, that takes longer than
// letting the last workgroup of attention wait.
constexpr uint32_t kMostParts = 2;

void lower_attention_projection(Lowering &lowering, const AttentionProjectionCall &call) {
    const AttentionProjectionOp &op = call.op();
    const Array step_operands[] = {call.q(),      call.k(),        call.v(),      call.q_gain(),
                                   call.k_gain(), call.position(), call.start(),  call.key_length(),
                                   call.freqs(),  call.keys(),     call.values(), {}};
    const AttentionStepCall step(step_operands, uint32_t(std::size(step_operands)), op.step);
    check_attention_step(lowering, step);
    const uint32_t wanted = attention_splits(step);
    const uint32_t splits = wanted <= kMostParts ? wanted : 1; // with more, attention combines them itself
    const int64_t heads = step.q().dim(0), d = step.q().dim(1);
    if (op.projection.norm != 0 || d % 8 != 0) {
        unsupported("attention followed by a norm, or heads of {} elements", d);
    }
    const Array row = splits > 1 ? lowering.scratch(DT_FLOAT32, {heads, splits, d + 4})
                                 : lowering.scratch(step.q().dtype, {heads, d});
    const Array none;
    const ProjectionOperands m{
        row, none,      none, call.residual(),      {{&call.w(), &call.scales(), &call.biases(), &call.out()}},
        1,   heads * d, 1,    {splits, uint32_t(d)}};
    check_projection(lowering, op.projection, m);
    if (splits > 1) {
        dispatch_attention_parts(lowering, step, row, splits);
    } else {
        dispatch_attention_step(lowering, step, row);
    }
    dispatch_projection(lowering, op.projection, m);
}

} // namespace kpx
