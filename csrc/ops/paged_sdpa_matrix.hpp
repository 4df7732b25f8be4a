// paged_sdpa on cooperative matrices.
#pragma once

#include "ops/paged.hpp"

namespace kpx {

// Whether tiles of rows that share the loads of keys serve better than each row by itself, and the device has them.
bool takes_paged_tiles(const Lowering &lowering, const PagedSDPAParams &p);
// Dispatches paged_sdpa_coopmat2, which attends by ranges of keys, and the kernel that puts these together, for some
// rows at a time, so that parts stay small.
void dispatch_paged_tiles(Lowering &lowering, const PagedSDPACall &call, const Array &out, const PagedSDPAParams &all);

// Whether the device and the shapes allow paged_fragments.glsl. Neither the number of rows nor lengths matter.
bool takes_paged_fragments(const Lowering &lowering, const PagedSDPACall &call);

// How kernels with paged_fragments.glsl divide a row's keys.
struct PagedFragments : PagedRanges {
    uint32_t threads; // of a workgroup
    uint32_t heads;   // query heads of it
};

// Does what plan_paged does, for these kernels.
PagedFragments plan_paged_fragments(Lowering &lowering, const PagedSDPACall &call, bool turns);

// Dispatches paged_sdpa_fragments, in place of paged_sdpa.
void dispatch_paged_fragments(Lowering &lowering, const PagedSDPACall &call, const Array &out,
                              const PagedSDPAParams &all);

} // namespace kpx
