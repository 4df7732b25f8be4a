// A call of quantized_matmul, as its lowerings see it.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

struct QuantizedProduct {
    const QuantizedMatMulOp &op;
    const Array &x, &w, &scales, &biases, &out;
    QuantizedMatMulParams p{};
};

// Whether x can be read by four elements.
inline uint32_t by_quads(const RowParams &x) {
    bool even = x.col_stride == 1 && x.offset % 4 == 0;
    for (uint32_t stride : x.strides) {
        even = even && stride % 4 == 0;
    }
    return even;
}

// The product on cooperative matrices (quantized_matmul_matrix.cpp).
bool prefers_matrices(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_matrices(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
