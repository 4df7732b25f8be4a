// quantized_matmul on cooperative matrices.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

// A call in the form that its lowerings use.
struct QuantizedProduct {
    const QuantizedMatMulOp &op;
    const Array &x, &w, &scales, &biases, &out;
    QuantizedMatMulParams p{};
};

// Whether the device has what it takes, and it is the fastest way.
bool prefers_matrices(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_matrices(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
