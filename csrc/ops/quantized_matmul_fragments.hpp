// quantized_matmul on cooperative matrices that lanes make in registers.
#pragma once

#include "ops/quantized_matmul_matrix.hpp"

namespace kpx {

// Whether the device can run it, and it is the fastest kernel for x, whose rows and groups prefers_matrices has
// checked.
bool prefers_fragment_matrices(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_fragment_matrices(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
