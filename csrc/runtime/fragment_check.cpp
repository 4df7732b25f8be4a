#include "runtime/fragment_check.hpp"

#include <algorithm>

#include "gen_kernels.hpp"
#include "record/lowering.hpp"
#include "runtime/coopmat.hpp"
#include "runtime/run_once.hpp"

namespace kpx {

bool passes_fragment_check(Device &device) {
    constexpr uint32_t kMixed = 60, kLarge = 4, kLanes = 32; // workgroups, and threads of each
    if (!device.features().coopmat_khr || device.traits().subgroup_size != kLanes ||
        !has_matrices_of_8_khr(device.physical())) {
        return false;
    }
    Program program;
    const Variants none;
    ProgramLowering lowering(device, program, ScratchMemory::now, nullptr, none);
    if (!lowering.has_kernel(spec::fragment_check::kKernel)) {
        return false;
    }
    Array failures = lowering.scratch(DT_UINT32, {1});
    failures.buffer = device.memory().allocate_mapped(sizeof(uint32_t));
    std::fill_n(failures.buffer->mapped(), sizeof(uint32_t), uint8_t(0));
    try {
        lowering.dispatch(spec::fragment_check{.threads = kLanes}, {.failures = {failures, KPX_WRITE}},
                          FragmentCheckParams{kMixed}, {kMixed + kLarge, 1, 1});
    } catch (const KernelRefused &) {
        return false;
    }
    run_once(device, std::move(program), "the device hangs: products of matrices did not end");
    uint32_t failed = 0;
    std::copy_n(failures.buffer->mapped(), sizeof failed, reinterpret_cast<uint8_t *>(&failed));
    return failed == 0;
}

} // namespace kpx
