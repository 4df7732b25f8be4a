#include "runtime/overlap_check.hpp"

#include <algorithm>
#include <array>

#include "gen_kernels.hpp"
#include "record/lowering.hpp"
#include "runtime/run_once.hpp"

namespace kpx {

namespace {

// Workgroups: more than a GPU can run at once, also where the number of its compute units is a guess.
constexpr uint32_t kUnitGroups = 64, kLeastGroups = 4096, kCpuGroups = 8;
constexpr uint32_t kSmallThreads = 64, kLargeThreads = 256, kLargeWords = 4096; // of a workgroup, and its shared memory
constexpr uint32_t kPatience = 1 << 15; // rounds of waiting; Mesa's CPU driver ends loops after 65,535
constexpr size_t kDispatches = 3;

uint32_t groups_for(const DeviceTraits &device) {
    const uint32_t wanted = device.is_cpu ? kCpuGroups : std::max(kLeastGroups, kUnitGroups * device.compute_units);
    return std::min(wanted, device.max_workgroup_count[0]);
}

// `awaited` are the words of the dispatch before, or of the same one, which then waits for nothing.
void append(Lowering &lowering, bool is_large, const Array &awaited, const Array &words, const Array &gave_up) {
    const DeviceTraits &device = lowering.device();
    const bool awaits = awaited.buffer != words.buffer;
    const auto groups = uint32_t(words.dim(0));
    const uint32_t threads = std::min(is_large ? kLargeThreads : kSmallThreads, device.max_workgroup_invocations);
    const uint32_t most = device.max_shared_bytes / uint32_t(sizeof(uint32_t));
    lowering.dispatch(
        spec::overlap_check{.threads = threads, .awaits = awaits, .held = is_large ? std::min(kLargeWords, most) : 1},
        {.awaited = {awaited, KPX_READ}, .words = {words, KPX_WRITE}, .gave_up = {gave_up, KPX_WRITE}},
        OverlapCheckParams{groups, kPatience}, {groups, 1, 1});
}

} // namespace

bool passes_overlap_check(Device &device) {
    Program program;
    const Variants none;
    ProgramLowering lowering(device, program, ScratchMemory::now, Making::now, nullptr, none);
    std::array<Array, kDispatches> words;
    Array gave_up = lowering.scratch(DT_UINT32, {1});
    gave_up.buffer = device.memory().allocate_mapped(sizeof(uint32_t));
    try {
        for (size_t i = 0; i < kDispatches; i++) {
            words[i] = lowering.scratch(DT_UINT32, {groups_for(device.traits())});
            program.begin_missing(use_of(device, words[i], KPX_WRITE));
            append(lowering, i % 2 == 0, words[i == 0 ? 0 : i - 1], words[i], gave_up);
        }
    } catch (const KernelRefused &) {
        return false;
    }
    for (Use &use : program.all_uses()) {
        use.awaited = true;
    }
    run_once(device, std::move(program), "the device hangs: dispatches without a barrier between them did not end");
    uint32_t failures = 0;
    std::copy_n(gave_up.buffer->mapped(), sizeof failures, reinterpret_cast<uint8_t *>(&failures));
    return failures == 0;
}

} // namespace kpx
