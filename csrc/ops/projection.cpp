#include <algorithm>

#include "ops/affine.hpp"
#include "ops/projection_lanes.hpp"
#include "ops/projection_matrix.hpp"
#include "ops/projection_operands.hpp"
#include "ops/quantized_matmul_matrix.hpp"
#include "ops/reduce.hpp"

namespace kpx {

namespace {

constexpr int64_t kMostRows = 16; // the most rows of x without byte tiles: for more, products of tiles are faster

// The quantization mode with these bits, scales and groups.
uint32_t mode_of(const ProjectionOp &op, const Array &scales) {
    if (scales.dtype != DT_UINT8) {
        return QUANTIZATION_AFFINE;
    }
    return op.bits == 8 ? QUANTIZATION_MXFP8 : op.group_size == 16 ? QUANTIZATION_NVFP4 : QUANTIZATION_MXFP4;
}

void check_matrix(const ProjectionOp &op, const ProjectionOperands &m, uint32_t i) {
    const Array &w = m.w(i), &scales = m.scales(i), &biases = m.biases(i);
    check_affine(w, scales, biases, mode_of(op, scales), op.bits, op.group_size, m.cols);
    const uint32_t words = op.bits % 4 == 0 ? 4 : op.bits % 2 == 0 ? 2 : 1; // of one load
    if (w.rank != 2 || w.dim(0) == 0 || w.stride(-1) != 1 || w.offset % words != 0 || w.stride(0) % words != 0 ||
        scales.stride(-1) != 1 || (biases && biases.stride(-1) != 1)) {
        unsupported("a matrix does not consist of rows that can be read in runs");
    }
    if (scales.dtype != m.scales(0).dtype || bool(biases) != bool(m.biases(0)) || biases.dtype != m.biases(0).dtype) {
        unsupported("the matrices' scales or biases differ in dtype");
    }
    if (finds_largest(op)) {
        const Array &out = m.out(0);
        if (!out || out.dtype != DT_UINT32 || out.size() != 1) {
            invalid("the result is not an index");
        }
        return;
    }
    const bool has_out = op.epilogue != PROJECTION_SILU_MUL || i == 0;
    if (!has_out) {
        return;
    }
    if (!m.out(i) || m.out(i).size() != w.dim(0) * m.x_rows || !is_float(m.out(i).dtype)) {
        invalid("the results must be floats, one for each row of x and of their matrices");
    }
    if (!m.out(i).contiguous() || m.out(i).dtype != m.out(0).dtype) {
        unsupported("the results are not contiguous and of one dtype");
    }
}

void check_x(const ProjectionOp &op, const ProjectionOperands &m) {
    if (m.gain && (op.norm == 0 || m.gain.rank != 1 || m.gain.dim(0) != m.cols || !is_float(m.gain.dtype))) {
        invalid("the gain does not fit x and a norm");
    }
    if (m.up && (op.norm != 0 || !same_shape(m.x, m.up) || !is_float(m.up.dtype))) {
        invalid("x and up do not match");
    }
}

void check_epilogue(const ProjectionOp &op, const ProjectionOperands &m) {
    const Array &residual = m.residual;
    if (op.epilogue == PROJECTION_RESIDUAL) {
        if (m.count != 1 || !residual || residual.dtype != m.out(0).dtype || residual.size() != m.out(0).size()) {
            invalid("the residual does not fit the result");
        }
        if (!residual.contiguous()) {
            unsupported("the residual is not contiguous");
        }
    }
    if (op.epilogue == PROJECTION_SILU_MUL && (m.count != 2 || m.w(0).dim(0) != m.w(1).dim(0))) {
        invalid("SiLU takes two matrices of one shape");
    }
    if (finds_largest(op) && (m.count != 1 || !is_float(op.dtype))) {
        invalid("arg_max takes one matrix with float products");
    }
    if (op.epilogue > PROJECTION_GREEDY) {
        invalid("there is no epilogue {}", op.epilogue);
    }
}

// Whether scales and biases are 16 bits each, and those of every row start at a word: then the kernel loads them in
// pairs.
bool in_halves(const ProjectionOperands &m) {
    for (uint32_t i = 0; i < m.count; i++) {
        for (const Array *x : {&m.scales(i), &m.biases(i)}) {
            if (!*x || x->element_size() != 2 || x->offset % 2 != 0 || x->stride(0) % 2 != 0) {
                return false;
            }
        }
    }
    return true;
}

// out: bound in place of the first result.
void launch(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m, ProjectionParams p,
            const ProjectionLaunch &l, uint32_t groups, const Array &out) {
    const DeviceTraits &device = lowering.device();
    const uint32_t dtype = finds_largest(op) ? op.dtype : out.dtype;
    const OneMatrix one(m, 1);
    one.place(p.sets);
    const ProjectionOperands bound = one.for_bindings();
    const ProjectionBindings bind{bound, out};
    Grid grid = grid_1d(device, groups);
    grid.z = divide_up(p.x_rows, l.x_rows);
    const bool awaits = m.x.dtype == DT_FLOAT32 && p.x_rows == 1 && m.parts.splits == 1 &&
                        lowering.runs_variant(spec::projection::kKernel, "subgroup");
    const bool gives = out.dtype == DT_FLOAT32;
    lowering.dispatch(spec::projection{.threads = l.threads(),
                                       .x_dtype = m.x.dtype,
                                       .gain_dtype = gain_dtype(m),
                                       .y_dtype = dtype,
                                       .scales_dtype = m.scales(0).dtype,
                                       .biases_dtype = bound_biases(m.scales(0), m.biases(0)).dtype,
                                       .bits = op.bits,
                                       .group_shift = std::max(group_shift(op.group_size), 5u) - 5,
                                       .cols = uint32_t(m.cols),
                                       .sets = m.count,
                                       .norm = norm_constant(op, m),
                                       .epilogue = finds_largest(op) ? PROJECTION_ARG_MAX : op.epilogue,
                                       .rows = l.rows,
                                       .turns = l.turns,
                                       .lanes = l.lanes,
                                       .splits = m.parts.splits,
                                       .head = m.parts.head,
                                       .integers = takes_integers(lowering),
                                       .slots = l.slots,
                                       .abreast = l.abreast,
                                       .piece = l.piece,
                                       .x_rows = l.x_rows,
                                       .halves = op.group_size == 16 ? 2u : uint32_t(in_halves(m)),
                                       .span = span_units(lowering, op, m),
                                       .one_matrix = one.exists(),
                                       .overlap = 0},
                      {.x = {m.x, KPX_READ, awaits},
                       .gain = bind.read(m.gain),
                       .residual = bind.read(m.residual, awaits && gives),
                       PROJECTION_MATRIX(bind, 0, bind.y(0, gives)),
                       PROJECTION_MATRIX(bind, 1, bind.y(1, gives)),
                       PROJECTION_MATRIX(bind, 2, bind.y(2, gives))},
                      p, grid);
}

ProjectionLaunch plan_launch(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    ProjectionShape shape = projection_shape(lowering, op, m);
    shape.integers = has_code_bytes(op.bits, bool(m.biases(0))) && takes_integers(lowering);
    shape.subgroup = lowering.runs_variant(spec::projection::kKernel, "subgroup");
    return plan_projection(lowering.device(), shape);
}

// What is made of the rows of x before they are multiplied.
uint32_t rows_kind(const ProjectionOp &op, const ProjectionOperands &m) {
    if (op.norm != 0) {
        return m.gain ? ROWS_GAINED : ROWS_NORMED;
    }
    return m.up ? ROWS_GATED : ROWS_PLAIN;
}

// A product of more rows: quantized_matmul's kernels, the first of which prepares x, and the last of which adds the
// residual.
void lower_many_rows(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (op.epilogue > PROJECTION_RESIDUAL || m.count != 1) {
        unsupported("{} rows", m.x_rows);
    }
    check_operands({&m.w(0), &m.scales(0), &m.biases(0), &m.out(0)});
    check_matrix(op, m, 0);
    check_epilogue(op, m);
    QuantizedMatMulOp product{};
    product.mode = mode_of(op, m.scales(0));
    product.bits = op.bits;
    product.group_size = op.group_size;
    product.transpose = 1;
    Array x = m.x;
    QuantizedProduct q =
        quantized_product(lowering, product, x, m.w(0), m.scales(0), bound_biases(m.scales(0), m.biases(0)), m.out(0));
    q.rows_kind = rows_kind(op, m);
    q.factors = op.norm != 0 ? m.gain : m.up;
    q.eps = op.eps;
    if (op.epilogue == PROJECTION_RESIDUAL) {
        q.residual = m.residual;
    }
    if (m.out(0).dim(-1) != m.w(0).dim(0) || q.residual.offset % 4 != 0 || !takes_fused(lowering, q)) {
        unsupported("{} rows of {} products", m.x_rows, m.w(0).dim(0));
    }
    dispatch_matrices(lowering, q);
}

} // namespace

bool takes_integers(const Lowering &lowering) {
    const DeviceTraits &device = lowering.device();
    return (device.dot8 || device.as_gpu) && lowering.runs_variant(spec::projection::kKernel, "dot8");
}

void check_projection(const Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (m.gain && (op.norm == 0 || m.gain.size() != m.cols || !is_float(m.gain.dtype))) {
        invalid("gain does not fit x");
    }
    if (m.gain && !rows_in_quads(m.gain)) {
        unsupported("gain cannot be read in quads");
    }
    if (m.cols % 32 != 0) {
        unsupported("rows of {} elements, which is not a multiple of 32", m.cols);
    }
    for (uint32_t i = 0; i < m.count; i++) {
        check_operands({&m.w(i), &m.scales(i), &m.biases(i), &m.out(i)});
        check_matrix(op, m, i);
    }
    check_operands({&m.gain, &m.residual});
    check_epilogue(op, m);
    if (m.up) {
        unsupported("SiLU of {} rows", m.x_rows);
    }
    if (prefers_lanes(lowering, spec::projection_lanes::kKernel) &&
        (finds_largest(op) || m.parts.splits > 1 || m.x_rows > 1 || !m.biases(0))) {
        unsupported(
            "the form for CPU drivers supports only one row, matrices with biases and epilogues that store products");
    }
    if (m.x_rows > 1 && finds_largest(op)) {
        unsupported("the largest products of {} rows", m.x_rows);
    }
    if (m.x_rows > kMostRows && !takes_byte_tiles(lowering, op, m)) {
        unsupported("{} rows", m.x_rows);
    }
    const DeviceTraits &device = lowering.device();
    if (device.subgroup_arithmetic && (device.subgroup_size < 8 || device.subgroup_size > 128)) {
        unsupported("subgroups of {}", device.subgroup_size);
    }
    if (prefers_lanes(lowering, spec::projection_lanes::kKernel)) {
        check_projection_lanes(device, op, m);
    } else {
        (void)plan_launch(lowering, op, m); // throws if shared memory does not suffice
    }
}

void dispatch_projection(Lowering &lowering, const ProjectionOp &op, const ProjectionOperands &m) {
    if (prefers_lanes(lowering, spec::projection_lanes::kKernel)) {
        dispatch_projection_lanes(lowering, op, m);
        return;
    }
    if (takes_byte_tiles(lowering, op, m)) {
        dispatch_byte_tiles(lowering, op, m);
        return;
    }
    const ProjectionLaunch l = plan_launch(lowering, op, m);
    ProjectionParams p{};
    p.x_stride = uint32_t(m.cols);
    const uint32_t groups = fill_groups(p, op, m, l.group_rows());
    if (!finds_largest(op)) {
        launch(lowering, op, m, p, l, groups, m.out(0));
        return;
    }
    const Array pairs = lowering.scratch(DT_UINT32, {groups, 2});
    p.sets[0].out_offset = uint32_t(pairs.offset);
    launch(lowering, op, m, p, l, groups, pairs);
    const uint32_t kind = op.epilogue == PROJECTION_GREEDY ? REDUCE_GREEDY : REDUCE_ARG_MAX;
    join_arg_max(lowering, kind, pairs, op.dtype, m.out(0));
}

void lower_projection(Lowering &lowering, const ProjectionCall &call) {
    const Array &x = call.x();
    const int64_t cols = x.rank == 0 ? 0 : x.dim(-1);
    if (cols == 0 || x.size() == 0 || !is_float(x.dtype)) {
        invalid("x is not rows of floats");
    }
    ProjectionOperands m{x, call.gain(), call.up(), call.residual(), {}, 0, cols, x.size() / cols, {}};
    for (uint32_t i = 0; i < ProjectionCall::kGroups && call.w(i); i++) {
        m.matrices[m.count++] = {&call.w(i), &call.scales(i), &call.biases(i), &call.out(i)};
    }
    if (m.count == 0) {
        invalid("there is no matrix");
    }
    check_operands({&x, &m.gain, &m.up, &m.residual});
    check_x(call.op(), m);
    if (m.x_rows > kMostProjectionRows) {
        lower_many_rows(lowering, call.op(), m);
        return;
    }
    if (!rows_in_quads(x)) {
        unsupported("x cannot be read in quads");
    }
    check_projection(lowering, call.op(), m);
    dispatch_projection(lowering, call.op(), m);
}

} // namespace kpx
