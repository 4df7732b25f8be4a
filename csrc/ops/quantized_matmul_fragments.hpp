// quantized_matmul on cooperative matrices that lanes make in registers.
#pragma once

#include "ops/quantized_matmul_matrix.hpp"

namespace kpx {

// Whether the device has what it takes, and it is the fastest way; of what prefers_matrices has checked.
bool prefers_fragment_matrices(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_fragment_matrices(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
