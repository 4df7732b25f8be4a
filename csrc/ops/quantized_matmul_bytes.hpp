// quantized_matmul on cooperative matrices of bytes.
#pragma once

#include "ops/quantized_matmul_matrix.hpp"

namespace kpx {

// Whether the device has the kernels and they are the fastest way, for affine codes in groups of at least 64.
bool prefers_bytes(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_bytes(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
