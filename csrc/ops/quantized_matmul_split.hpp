// What quantized_matmul_coopmat and quantized_matmul_fragments have in common: operands as float16 parts, and the sum
// of ranges of columns.
#pragma once

#include "ops/quantized_matmul_matrix.hpp"

namespace kpx {

// What quantized_matmul_split makes of the operands.
struct SplitPlan {
    uint32_t x_parts, w_parts; // number of float16 parts whose sum is an element
    int64_t groups, more;      // of a row of w; the number of columns added to those of x
    int64_t x_runs = 0;        // of 8 elements, in a row of x with what is added
    bool fragments = false;    // whether the order of x's parts is that of quantized_matmul_fragments

    explicit SplitPlan(const QuantizedProduct &x);
};

// What they read besides w.
struct SplitOperands {
    Array x_parts, x_exponents, scales, more, w_exponents;
};

SplitOperands split_operands(Lowering &lowering, const QuantizedProduct &x, const SplitPlan &plan);

// Adds up what the workgroups that share the columns of a tile have left in sums.
void join_splits(Lowering &lowering, const QuantizedProduct &x, const SplitPlan &plan, const SplitOperands &in,
                 const Array &w, const Array &sums, const QuantizedMatMulMatrixParams &p, uint32_t splits);

} // namespace kpx
