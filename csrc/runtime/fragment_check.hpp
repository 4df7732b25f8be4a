// Whether kernels may make matrices in registers on a device (fragments.glsl).
#pragma once

namespace kpx {

class Device;

// Whether the device has the shapes of fragments.glsl, with elements in the places that it expects, and sums them
// exactly: runs a kernel that compares products with those of integers. Also false if that kernel cannot be run. Throws
// the driver's other errors.
bool passes_fragment_check(Device &device);

} // namespace kpx
