// What other lowerings use of the attention_step op.
#pragma once

#include "ops/op.hpp"
#include "ops/op_params.h"

namespace kpx {

// The operands of an attention_step, in the order of op_params.h, without what it gives.
struct AttentionStepOperands {
    static constexpr uint32_t kCount = 11;
    const Array *arrays;

    const Array &q() const { return arrays[0]; }
    const Array &k() const { return arrays[1]; }
    const Array &v() const { return arrays[2]; }
    const Array &q_gain() const { return arrays[3]; }
    const Array &k_gain() const { return arrays[4]; }
    const Array &position() const { return arrays[5]; }
    const Array &start() const { return arrays[6]; }
    const Array &length() const { return arrays[7]; }
    const Array &freqs() const { return arrays[8]; }
    const Array &keys() const { return arrays[9]; }
    const Array &values() const { return arrays[10]; }
};

// Whether the kernel can do it.
Support check_attention_step(const Lowering &lowering, const AttentionStepOp &op, const AttentionStepOperands &s);
// The ranges of keys that workgroups take apart from each other, by what the cache holds and not by the length, which
// the device alone may know; at most `most`, where whoever reads them puts the parts together.
uint32_t attention_splits(const AttentionStepOp &op, uint32_t most);
// out: [Hq, D].
void dispatch_attention_step(Lowering &lowering, const AttentionStepOp &op, const AttentionStepOperands &s,
                             const Array &out);
// parts: float32 [Hq, splits, D + 4], as parts.glsl reads them.
void dispatch_attention_parts(Lowering &lowering, const AttentionStepOp &op, const AttentionStepOperands &s,
                              const Array &parts, uint32_t splits);

} // namespace kpx
