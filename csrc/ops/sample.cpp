#include <algorithm>

#include "ops/lowering_util.hpp"
#include "ops/rounds.hpp"

namespace kpx {

// Columns per workgroup if several share a row. For one row a GPU needs many short loops at once, for several rows
// fewer, since each begins and ends with steps that take as long as hundreds of columns. A CPU needs few workgroups.
static int64_t run_length(const DeviceTraits &device, int64_t rows) {
    return device.is_cpu ? 16384 : 1024 * std::clamp<int64_t>(rows, 1, 8);
}
// The number of rows that keep a device busy with one workgroup each, although its loops over a vocabulary are long.
static constexpr int64_t MANY_ROWS = 1024;
static constexpr int64_t LONGEST_ROW = 1 << 20; // of one workgroup, if that may be avoided

// The rounds of a thread's loops over its tokens of the row, five times if it draws alone (sample_keys.glsl), and twice
// over those of its part before that. Tokens are loaded in turns of four, each a loop. Loops over bins come in
// addition.
static int64_t sample_rounds(int64_t cols, int64_t part, uint32_t threads) {
    const int64_t bins = SAMPLE_BINS * 32 / threads;
    return (5 * (cols / threads + 4) + 2 * (part / threads + 4)) * 3 / 2 + bins;
}

static void check_sample(const SampleCall &call) {
    const Array &x = call.logits(), &settings = call.params(), &step = call.step(), &out = call.out();
    if (!is_float(x.dtype) || out.dtype != DT_UINT32 || settings.dtype != DT_UINT32)
        invalid("dtypes {}, {} to {}", dtype_name(x.dtype), dtype_name(settings.dtype), dtype_name(out.dtype));
    if (x.rank == 0 || out.rank + 1 != x.rank || !same_leading(out, x, out.rank))
        invalid("out does not have the shape of logits without the last axis");
    const bool own = settings.rank == 2 && x.rank == 2 && settings.dim(0) == x.dim(0);
    if ((settings.rank != 1 && !own) || settings.dim(-1) != SAMPLE_PARAMS_SIZE)
        invalid("params must be uint32 [{}], for each row or for all", SAMPLE_PARAMS_SIZE);
    if (step && (step.dtype != DT_INT32 || step.size() != 1))
        invalid("step must be one int32");
    if (out.size() > 0 && (x.dim(-1) == 0 || x.dim(-1) >= 1 << 24))
        invalid("rows of {} elements", x.dim(-1));
    check_operands({&x, &settings, &step, &out});
}

// Dispatches one workgroup for each row, or divides rows into parts, with a dispatch for each stage.
static void dispatch_stages(Lowering &lowering, const SampleCall &call, const Array &x, const Array &out,
                            SampleParams params) {
    const Array &settings = call.params(), &step = call.step() ? call.step() : call.params();
    const DeviceTraits &device = lowering.device();
    const int64_t rows = params.x.rows, cols = params.x.cols, run = run_length(device, rows);
    const bool share = cols > LONGEST_ROW || (cols > std::max(run, 4 * run_length(device, 1)) && rows < MANY_ROWS);
    const int64_t length = share ? std::max(run, (cols + SAMPLE_MOST_PARTS - 1) / SAMPLE_MOST_PARTS) : cols;
    // One workgroup may have to go through all of the row.
    const uint32_t threads =
        std::min(row_threads(device, device.is_cpu ? cols : length), uint32_t(SAMPLE_MOST_THREADS));
    if (too_many_rounds(device, sample_rounds(cols, length, threads)))
        unsupported("a row of {} elements is too long", cols);
    params.parts = uint32_t((cols + length - 1) / length);
    params.run = uint32_t(length);
    params.bests = params.parts * SAMPLE_PART_BESTS <= threads ? SAMPLE_PART_BESTS : 1;
    params.scratch_stride = share ? (SAMPLE_PARTS_FROM + SAMPLE_PART_WORDS * params.parts + 3) / 4 * 4 : 4;
    // Some rows at a time, so that scratch memory stays small however many there are.
    const int64_t most = std::min<int64_t>(rows, 1024);
    Array scratch = lowering.scratch(DT_UINT32, {most, int64_t(params.scratch_stride)});
    params.scratch_offset = uint32_t(scratch.offset);
    params.slots = uint32_t(most);
    const kpx_access writes = rows == most ? KPX_WRITE : KPX_READ_WRITE;
    for (params.first_row = 0; params.first_row < rows; params.first_row += uint32_t(most)) {
        const int64_t turn = std::min(most, rows - params.first_row);
        if (!share) {
            lowering.dispatch(spec::sample{.threads = threads, .x_dtype = x.dtype, .stage = SAMPLE_STAGES},
                              {.x = {x, KPX_READ},
                               .settings = {settings, KPX_READ},
                               .steps = {step, KPX_READ},
                               .scratch = {scratch, KPX_WRITE},
                               .y = {out, writes}},
                              params, grid_1d(device, turn));
            continue;
        }
        const kpx_access y_access[] = {KPX_READ, writes, KPX_READ_WRITE};
        for (uint32_t stage = 0; stage < SAMPLE_STAGES; stage++) {
            lowering.dispatch(spec::sample{.threads = threads, .x_dtype = x.dtype, .stage = stage},
                              {.x = {x, KPX_READ},
                               .settings = {settings, KPX_READ},
                               .steps = {step, KPX_READ},
                               .scratch = {scratch, stage == 0 ? KPX_WRITE : KPX_READ_WRITE},
                               .y = {stage == 0 ? x : out, y_access[stage]}},
                              params, grid_1d(device, turn * params.parts));
        }
    }
}

void lower_sample(Lowering &lowering, const SampleCall &call) {
    check_sample(call);
    if (call.out().size() == 0)
        return;
    Array x = call.logits();
    const Array &settings = call.params(), &step = call.step(), &out = call.out();
    SampleParams params{};
    params.x = rows_of(lowering, x);
    params.settings_offset = uint32_t(settings.offset);
    params.settings_stride = uint32_t(settings.stride(-1));
    params.own_settings = settings.rank == 2;
    params.settings_row = settings.rank == 2 ? uint32_t(settings.stride(0)) : 0;
    params.has_step = step ? 1 : 0;
    params.step_offset = step ? uint32_t(step.offset) : 0;
    params.step = call.op().step;
    Array dense = dense_output(lowering, out);
    params.out_offset = uint32_t(dense.offset);
    dispatch_stages(lowering, call, x, dense, params);
    store_output(lowering, dense, out);
}

} // namespace kpx
