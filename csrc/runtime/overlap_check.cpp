#include "runtime/overlap_check.hpp"

#include <algorithm>

#include "gen_kernels.hpp"
#include "record/lowering.hpp"
#include "runtime/run_once.hpp"

namespace kpx {

namespace {

constexpr uint32_t kThreads = 64;
constexpr uint32_t kUnitGroups = 64, kCpuUnitGroups = 2; // of a compute unit: more than it can run at once
constexpr uint32_t kWork = 4096, kPatience = 1 << 16;    // rounds

struct Check {
    Array words, gave_up;

    void dispatch(Lowering &lowering, bool awaits) const {
        const auto groups = uint32_t(words.dim(0));
        lowering.dispatch(spec::overlap_check{.threads = kThreads, .awaits = awaits},
                          {.words = {words, awaits ? KPX_READ : KPX_WRITE}, .gave_up = {gave_up, KPX_WRITE}},
                          OverlapCheckParams{groups, awaits ? kPatience : kWork}, {groups, 1, 1});
    }
};

} // namespace

bool passes_overlap_check(Device &device) {
    const DeviceTraits &traits = device.traits();
    const uint32_t groups = std::max(1u, traits.compute_units) * (traits.is_cpu ? kCpuUnitGroups : kUnitGroups);
    Program program;
    ProgramLowering lowering(device, program, ScratchMemory::now, nullptr, {});
    Check check{lowering.scratch(DT_UINT32, {std::min(groups, traits.max_workgroup_count[0])}),
                lowering.scratch(DT_UINT32, {1})};
    check.gave_up.buffer = device.memory().allocate_mapped(sizeof(uint32_t));
    program.begin_missing(use_of(device, check.words, KPX_WRITE));
    check.dispatch(lowering, false);
    check.dispatch(lowering, true);
    for (Use &use : program.all_uses()) {
        use.awaited = true;
    }
    run_once(device, std::move(program), "the device hangs: dispatches without a barrier between them did not end");
    uint32_t gave_up = 0;
    std::copy_n(check.gave_up.buffer->mapped(), sizeof gave_up, reinterpret_cast<uint8_t *>(&gave_up));
    return gave_up == 0;
}

} // namespace kpx
