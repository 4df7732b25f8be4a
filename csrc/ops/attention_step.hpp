// What other lowerings use of the attention_step op.
#pragma once

#include "ops/gen_ops.hpp"

namespace kpx {

// Throws if the kernel cannot do it. Neither this nor the functions below look at the result of the step.
void check_attention_step(const Lowering &lowering, const AttentionStepCall &s);
// The number of workgroups that share the keys of a head. It depends on the cache's capacity, since the length may be
// known only to the device.
uint32_t attention_splits(const AttentionStepCall &s);
// out: [Hq, D].
void dispatch_attention_step(Lowering &lowering, const AttentionStepCall &s, const Array &out);
// parts: float32 [Hq, splits, D + 4], in the form that attention_parts.glsl reads.
void dispatch_attention_parts(Lowering &lowering, const AttentionStepCall &s, const Array &parts, uint32_t splits);

} // namespace kpx
