// Checks the caller's SPIR-V before a driver sees it: drivers trust it, and
// crash if it is malformed.
#pragma once

#include <cstdint>

namespace kpx {

class Device;

// What a shader is created with.
struct ShaderCall {
    uint32_t bindings;    // at most 64
    const uint32_t *spec; // the values of specialization constants 0, 1, …
    uint32_t n_spec;
    uint32_t push_bytes;
    uint32_t subgroup_size; // that it asks for; 0: none
};

// Returns which bindings the shader may write: bit i is set for binding i unless everything there is NonWritable (GLSL:
// readonly).
//
// Throws KPX_INVALID if it is not a SPIR-V module with a compute entry point "main", storage buffers and no other
// resources that it uses, in set 0 below bindings, push constants within those given, specialization constants of 32
// bits where values are given, and a workgroup and shared memory, with those values, within the device's limits; and
// KPX_UNSUPPORTED if it needs a capability or a mode of floats that the device lacks or that is not enabled. If the
// library is built with SPIRV-Tools, these validate the whole module (validate_spirv); otherwise everything else is
// trusted.
uint64_t check_spirv(const Device &device, const uint32_t *words, uint64_t count, const ShaderCall &call);

// Throws KPX_INVALID if SPIRV-Tools find a module of whole instructions invalid. Without them, or if the module has a
// capability that they do not know (those of Debian 12 do not know CooperativeMatrixKHR), it does nothing.
void validate_spirv(const uint32_t *words, uint64_t count);

} // namespace kpx
