// What other lowerings use of the attention_step op.
#pragma once

#include "ops/gen_ops.hpp"

namespace kpx {

// Throws why the kernel cannot do it. What the step gives is not looked at, here and below.
void check_attention_step(const Lowering &lowering, const AttentionStepCall &s);
// Among how many workgroups the keys of a head are dealt out: by what the cache holds and not by the length, which the
// device alone may know.
uint32_t attention_splits(const AttentionStepCall &s);
// out: [Hq, D].
void dispatch_attention_step(Lowering &lowering, const AttentionStepCall &s, const Array &out);
// parts: float32 [Hq, splits, D + 4], as attention_parts.glsl reads them.
void dispatch_attention_parts(Lowering &lowering, const AttentionStepCall &s, const Array &parts, uint32_t splits);

} // namespace kpx
