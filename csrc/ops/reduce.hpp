// What other lowerings use of the reduce op.
#pragma once

#include "ops/op.hpp"

namespace kpx {

// arg_max of one row whose parts have been reduced: pairs [parts, 2] of uint32, key and index, in the form of
// reduce_kinds.glsl.
void join_arg_max(Lowering &lowering, const Array &pairs, const Array &out);

} // namespace kpx
