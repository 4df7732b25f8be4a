#include "ops/lowering_util.hpp"

#include <algorithm>

namespace kpx {

// Columns that one workgroup looks through before a row is worth splitting. A
// GPU wants many short loops at once, a CPU few workgroups.
static int64_t run_length(const DeviceTraits &device) {
    return device.is_cpu ? 4096 : 1024;
}
static constexpr int64_t MOST_PARTS = 1024;

// Whether out has x's shape without the last axis.
static bool out_matches(const Array &x, const Array &out) {
    return x.rank > 0 && out.rank + 1 == x.rank &&
           std::equal(out.shape.begin(), out.shape.begin() + out.rank, x.shape.begin());
}

static void dispatch_one_stage(Lowering &lowering, const Array &x, const Array &out, ArgMaxParams params) {
    uint32_t threads = row_threads(lowering.device(), params.x.cols);
    params.parts = 1;
    params.run = params.x.cols;
    params.out_offset = uint32_t(out.offset);
    lowering.dispatch("arg_max", {threads, x.dtype, 0, 0}, {{x, KPX_READ}, {out, KPX_WRITE}}, params,
                      grid_1d(lowering.device(), params.x.rows));
}

// Each row in parts of run_length() or more columns, and then the parts' winners.
static void dispatch_two_stages(Lowering &lowering, const Array &x, const Array &out, ArgMaxParams params) {
    int64_t cols = params.x.cols, rows = params.x.rows;
    int64_t run = std::max(run_length(lowering.device()), (cols + MOST_PARTS - 1) / MOST_PARTS);
    int64_t parts = (cols + run - 1) / run;
    Array pairs = lowering.scratch(DT_UINT32, {rows, parts, 2});
    params.parts = uint32_t(parts);
    params.run = uint32_t(run);
    params.out_offset = uint32_t(pairs.offset);
    lowering.dispatch("arg_max", {row_threads(lowering.device(), run), x.dtype, 0, 1},
                      {{x, KPX_READ}, {pairs, KPX_WRITE}}, params, grid_1d(lowering.device(), rows * parts));

    ArgMaxParams joint{};
    joint.x = {uint32_t(rows),        uint32_t(parts), {1, 1, uint32_t(rows)}, {0, 0, uint32_t(parts * 2)}, 2,
               uint32_t(pairs.offset)};
    joint.parts = 1;
    joint.run = uint32_t(parts);
    joint.out_offset = uint32_t(out.offset);
    lowering.dispatch("arg_max", {row_threads(lowering.device(), parts), DT_UINT32, 1, 0},
                      {{pairs, KPX_READ}, {out, KPX_WRITE}}, joint, grid_1d(lowering.device(), rows));
}

// Arrays: x, out (uint32). Any dtype and layout; along the last axis.
Support lower_arg_max(Lowering &lowering, const OpCall &call) {
    Support checked = check_call<ArgMaxOp>(call, 2);
    if (!checked.ok())
        return checked;
    Array x = call.arrays[0];
    const Array &out = call.arrays[1];
    if (out.dtype != DT_UINT32 || !out_matches(x, out))
        return unsupported("out is not uint32 of x's shape without the last axis");
    checked = check_operands(lowering, {&x, &out});
    if (!checked.ok() || out.size() == 0)
        return checked;
    if (x.size() == 0)
        return unsupported("the last axis is empty");
    ArgMaxParams params{};
    params.x = rows_of(lowering, x);
    Array dense = dense_output(lowering, out);
    const int64_t run = run_length(lowering.device());
    // Many rows fill the device by themselves.
    if (params.x.cols > 2 * run && (params.x.rows < 256 || params.x.cols > run * MOST_PARTS))
        dispatch_two_stages(lowering, x, dense, params);
    else
        dispatch_one_stage(lowering, x, dense, params);
    store_output(lowering, dense, out);
    return supported();
}

} // namespace kpx
