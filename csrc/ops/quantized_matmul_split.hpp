// What quantized_matmul_coopmat and quantized_matmul_fragments have in common: operands as float16 parts, and the sum
// of ranges of columns.
#pragma once

#include "ops/quantized_matmul_matrix.hpp"

namespace kpx {

// What quantized_matmul_split makes of the operands.
struct PartsPlan {
    uint32_t x_parts, w_parts; // number of float16 parts whose sum is an element
    int64_t groups, more;      // of a row of w; the number of columns added to those of x
    int64_t x_runs = 0;        // of 8 elements, in a row of x with what is added
    bool fragments = false;    // whether the order of x's parts is that of quantized_matmul_fragments

    explicit PartsPlan(const QuantizedProduct &x);
};

// What the two kernels read besides w.
struct OperandParts {
    Array x_parts, x_exponents, scales, more, w_exponents;
};

OperandParts operand_parts(Lowering &lowering, const QuantizedProduct &x, const PartsPlan &plan);

// Adds up what the workgroups with the ranges of columns of a tile have left in sums.
void join_splits(Lowering &lowering, const QuantizedProduct &x, const PartsPlan &plan, const OperandParts &in,
                 const Array &w, const Array &sums, const QuantizedMatMulMatrixParams &p, uint32_t splits);

} // namespace kpx
