// Whether kernels may make matrices in registers on a device (fragments.glsl).
#pragma once

namespace kpx {

class Device;

struct FragmentCheck {
    bool matrices = false; // the device has the shapes of fragments.glsl, with elements in the places that it expects,
                           // and sums them exactly
    bool codes = false;    // and multiplies codes by scales exactly (fragment_codes.glsl)
};

// Runs a kernel that compares products with those of integers. All is false if it cannot be run. Throws the driver's
// other errors.
FragmentCheck check_fragments(Device &device);

} // namespace kpx
