#include "runtime/fragment_check.hpp"

#include <algorithm>
#include <array>

#include "gen_kernels.hpp"
#include "record/lowering.hpp"
#include "runtime/coopmat.hpp"
#include "runtime/run_once.hpp"

namespace kpx {

FragmentCheck check_fragments(Device &device) {
    constexpr uint32_t kMixed = 60, kLarge = 4, kLanes = 32; // workgroups, and threads of each
    using Failures = std::array<uint32_t, 2>;                // of matrices and of codes
    if (!device.features().coopmat_khr || device.traits().subgroup_size != kLanes ||
        !has_matrices_of_8_khr(device.physical())) {
        return {};
    }
    Program program;
    const Variants none;
    ProgramLowering lowering(device, program, ScratchMemory::now, Making::now, nullptr, none);
    if (!lowering.has_kernel(spec::fragment_check::kKernel)) {
        return {};
    }
    Array failures = lowering.scratch(DT_UINT32, {int64_t(Failures().size())});
    failures.buffer = device.memory().allocate_mapped(sizeof(Failures));
    std::fill_n(failures.buffer->mapped(), sizeof(Failures), uint8_t(0));
    try {
        lowering.dispatch(spec::fragment_check{.threads = kLanes}, {.failures = {failures, KPX_WRITE}},
                          FragmentCheckParams{kMixed}, {kMixed + kLarge, 1, 1});
    } catch (const KernelRefused &) {
        return {};
    }
    run_once(device, std::move(program), "the device hangs: products of matrices did not end");
    Failures failed;
    std::copy_n(failures.buffer->mapped(), sizeof failed, reinterpret_cast<uint8_t *>(failed.data()));
    return {failed[0] == 0, failed[0] == 0 && failed[1] == 0};
}

} // namespace kpx
