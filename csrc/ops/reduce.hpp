// What other lowerings use of the reduce op.
#pragma once

#include "ops/op.hpp"

namespace kpx {

// arg_max or greedy, as kind says, of one row of a dtype whose parts have been reduced: pairs [parts, 2] of uint32, key
// and index, in the form of reduce_kinds.glsl.
void join_arg_max(Lowering &lowering, uint32_t kind, const Array &pairs, uint32_t dtype, const Array &out);

} // namespace kpx
