// What SPIR-V may ask of a device.
#pragma once

#include <cstdint>

namespace kpx {

class Device;

// Throws KPX_UNSUPPORTED if the device lacks a capability that a shader declares, or was not opened with it, or if
// nothing enables it.
void check_capability(const Device &device, uint32_t capability);

// The same for an execution mode of a shader, if it is one of floats of so many bits.
void check_float_mode(const Device &device, uint32_t mode, uint32_t bits);

} // namespace kpx
