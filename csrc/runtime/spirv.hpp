// Checks the caller's SPIR-V before a driver sees it: drivers trust it, and
// crash if it is malformed.
#pragma once

#include <cstdint>

namespace kpx {

class Device;

// Throws KPX_INVALID if it is no SPIR-V module with a compute entry point "main",
// storage buffers in set 0 below bindings, and a workgroup, with those specialization
// constants, within the device's limits, and KPX_UNSUPPORTED if it needs a
// capability that the device lacks or that is not enabled. If the library is built
// with SPIRV-Tools, these validate the whole module; otherwise everything else is
// trusted.
void check_spirv(const Device &device, const uint32_t *words, uint64_t count, uint32_t bindings, const uint32_t *spec,
                 uint32_t n_spec);

} // namespace kpx
