// A call of quantized_matmul in the form that its lowerings use.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

struct QuantizedProduct {
    const QuantizedMatMulOp &op;
    const Array &x, &w, &scales, &biases, &out;
    QuantizedMatMulParams p{};
};

// The product on cooperative matrices (quantized_matmul_matrix.cpp).
bool prefers_matrices(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_matrices(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
