// quantized_matmul on cooperative matrices.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

// A call in the form that its lowerings use.
struct QuantizedProduct {
    const QuantizedMatMulOp &op;
    const Array &x, &w, &scales, &biases, &out;
    QuantizedMatMulParams p{};
    Array residual{}; // of out's layout, added to the product; else empty

    // out: contiguous.
    QuantizedProduct(Lowering &lowering, const QuantizedMatMulOp &op, Array &x, const Array &w, const Array &scales,
                     const Array &biases, const Array &out);
};

// Whether the device has what it takes, and it is the fastest way.
bool prefers_matrices(const Lowering &lowering, const QuantizedProduct &x);
// Whether it takes a residual then: if the results of ranges of columns are added up by a kernel of their own.
bool takes_residual(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_matrices(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
