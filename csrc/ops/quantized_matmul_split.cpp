#include "ops/quantized_matmul_split.hpp"

namespace kpx {

PartsPlan::PartsPlan(const QuantizedProduct &x) {
    const bool affine = x.op.mode == QUANTIZATION_AFFINE;
    x_parts = x.x.dtype == DT_FLOAT32 ? 2 : 1;
    // 8 bits of bfloat16 times 3 bits of a code and a sign are float16's 11.
    w_parts = !affine || (x.op.bits <= 4 && x.scales.dtype == DT_BFLOAT16) ? 1 : 2;
    groups = x.p.x.cols >> x.p.group_shift;
    more = affine ? BIAS_COPIES(x_parts, w_parts) * groups : 0;
}

OperandParts operand_parts(Lowering &lowering, const QuantizedProduct &x, const PartsPlan &plan) {
    const DeviceTraits &device = lowering.device();
    const int64_t rows = x.p.x.rows, n = x.p.n;
    // Fragments have whole tiles of rows, and loads are begun past the last one.
    const int64_t x_rows = plan.fragments ? divide_up(rows, 16) * 16 + 16 : rows;
    const int64_t copies = plan.fragments && x.op.group_size > 16 ? 2 : 1; // of a scale
    const OperandParts out{lowering.scratch(DT_UINT32, {plan.x_parts, x_rows, plan.x_runs * 4}),
                           lowering.scratch(DT_INT32, {rows}),
                           lowering.scratch(plan.w_parts == 1 ? DT_FLOAT16 : DT_FLOAT32, {n, plan.groups * copies}),
                           lowering.scratch(DT_FLOAT16, {plan.w_parts, n, std::max<int64_t>(plan.more, 1)}),
                           lowering.scratch(DT_INT32, {n})};
    QuantizedMatMulSplitParams p{};
    Array factors;
    p.rows = made_rows(lowering, x, factors);
    p.weights = scales_params(x);
    p.weights.more = uint32_t(plan.more);
    p.x_runs = uint32_t(plan.x_runs);
    const MadeRowsShape shape = made_rows_shape(device, x);
    const int64_t subgroups = shape.threads / device.subgroup_size; // each prepares a row of w
    lowering.dispatch(spec::quantized_matmul_split{.threads = shape.threads,
                                                   .x_dtype = x.x.dtype,
                                                   .scales_dtype = x.scales.dtype,
                                                   .biases_dtype = x.biases.dtype,
                                                   .parts = plan.x_parts,
                                                   .vector = quads_in_rows(p.rows.x) && quads_in_rows(p.rows.factors),
                                                   .w_parts = plan.w_parts,
                                                   .sums = uint32_t(x.op.mode == QUANTIZATION_AFFINE),
                                                   .bits = x.op.bits,
                                                   .factors_dtype = factors.dtype,
                                                   .rows_kind = x.rows_kind,
                                                   .runs = shape.runs,
                                                   .fragments = plan.fragments},
                      {.x = {x.x, KPX_READ},
                       .parts = {out.x_parts, KPX_WRITE},
                       .exponents = {out.x_exponents, KPX_WRITE},
                       .scales = {x.scales, KPX_READ},
                       .biases = {x.biases, KPX_READ},
                       .scaled = {out.scales, KPX_WRITE},
                       .w_more = {out.more, KPX_WRITE},
                       .w_exponents = {out.w_exponents, KPX_WRITE},
                       .factors = {factors, KPX_READ}},
                      p, grid_1d(device, rows + (n + subgroups - 1) / subgroups));
    return out;
}

void join_splits(Lowering &lowering, const QuantizedProduct &x, const PartsPlan &plan, const OperandParts &in,
                 const Array &w, const Array &sums, const QuantizedMatMulMatrixParams &p, uint32_t splits) {
    lowering.dispatch(
        spec::quantized_matmul_join{.threads = element_threads(lowering.device()),
                                    .x_dtype = x.x.dtype,
                                    .scales_dtype = x.scales.dtype,
                                    .biases_dtype = x.biases.dtype,
                                    .bits = x.op.bits,
                                    .y_dtype = x.out.dtype,
                                    .splits = splits,
                                    .residual = uint32_t(bool(x.residual)),
                                    .fragments = plan.fragments},
        {.x_words = {in.x_parts, KPX_READ},
         .w = {w, KPX_READ},
         .scales = {x.scales, KPX_READ},
         .biases = {x.biases, KPX_READ},
         .y = {x.out, KPX_WRITE},
         .x_exponents = {in.x_exponents, KPX_READ},
         .w_exponents = {in.w_exponents, KPX_READ},
         .sums = {sums, KPX_READ},
         .residual = {x.residual ? x.residual : in.x_parts, KPX_READ}},
        p, grid_1d(lowering.device(), divide_up(int64_t(x.p.x.rows) * x.p.n / 4, element_threads(lowering.device()))));
}

} // namespace kpx
