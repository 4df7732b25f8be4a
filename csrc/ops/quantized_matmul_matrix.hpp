// quantized_matmul on cooperative matrices.
#pragma once

#include "ops/lowering_util.hpp"

namespace kpx {

// A call in the form that its lowerings use.
struct QuantizedProduct {
    const QuantizedMatMulOp &op;
    const Array &x, &w, &scales, &biases, &out;
    QuantizedMatMulParams p{};
    uint32_t rows_kind = ROWS_PLAIN; // what is made of x first: a ROWS_*
    Array factors{};                 // for it: [cols], or of x's shape
    float eps = 0;                   // for it
    Array residual{};                // of out's layout, added to the product; else empty
};

// out: contiguous.
QuantizedProduct quantized_product(Lowering &lowering, const QuantizedMatMulOp &op, Array &x, const Array &w,
                                   const Array &scales, const Array &biases, const Array &out);

// The rows of x that made_rows.glsl is to make, and the tensor of their factors: x if there are none.
MadeRowsParams made_rows(Lowering &lowering, const QuantizedProduct &x, Array &factors);
QuantizedMatMulScalesParams scales_params(const QuantizedProduct &x); // without more columns
// The threads of a workgroup that makes a row, and the runs of each: enough to keep a row in registers, if possible.
struct MadeRowsShape {
    uint32_t threads, runs;
};
MadeRowsShape made_rows_shape(const DeviceTraits &device, const QuantizedProduct &x);

// How long a step of a workgroup takes on an H200, µs, while 264 workgroups run, which is as many as it holds, and
// while at most half as many do.
struct StepTimes {
    double full, half;
};
// How many workgroups share the steps of each tile, for the least time; none of them is without a step.
uint32_t best_ranges(const QuantizedProduct &x, uint32_t steps, int64_t tiles, StepTimes times);

// Whether the device has the kernels and they are the fastest way.
bool prefers_matrices(const Lowering &lowering, const QuantizedProduct &x);
// Whether they also take the residual, if there is one.
bool takes_fused(const Lowering &lowering, const QuantizedProduct &x);
void dispatch_matrices(Lowering &lowering, QuantizedProduct &x);

} // namespace kpx
