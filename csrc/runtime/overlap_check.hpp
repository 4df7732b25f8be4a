// Whether dispatches may overlap on a device (graph/overlap.hpp).
#pragma once

namespace kpx {

class Device;

// Runs three dispatches without barriers, of more workgroups than the device runs at once, large and small ones in
// turn, each of which waits for all words that the dispatch before it stores. Returns whether they came: a device that
// starts later workgroups first would leave no room for those that they wait for. Also false if the kernel cannot be
// run. Throws the driver's other errors.
bool passes_overlap_check(Device &device);

} // namespace kpx
