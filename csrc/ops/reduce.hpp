// What other lowerings use of the reduce op.
#pragma once

#include "ops/op.hpp"

namespace kpx {

// arg_max of one row whose parts were reduced already: pairs [parts, 2] of uint32, key and index, as reduce_kinds.glsl
// has them.
void join_arg_max(Lowering &lowering, const Array &pairs, const Array &out);

} // namespace kpx
