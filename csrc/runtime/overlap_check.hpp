// Whether dispatches may overlap on a device (graph/overlap.hpp).
#pragma once

namespace kpx {

class Device;

// Runs a dispatch of many workgroups and, without a barrier, one whose workgroups wait for all of them. Returns whether
// they came; a device that starts the second ones first would leave no room for those that they wait for. Throws the
// driver's errors.
bool passes_overlap_check(Device &device);

} // namespace kpx
