#include "runtime/spirv_capabilities.hpp"

#include <spirv/unified1/spirv.hpp>

#include "abi/error.hpp"
#include "runtime/device.hpp"

namespace kpx {

namespace {

// The capabilities that a shader may declare, with the device feature that each needs,
// if any. Features that kernels use are always enabled if the device has them, others
// if they were requested when it was opened.
const struct {
    spv::Capability capability;
    bool Features::*feature; // null: every device has it
    const char *what;
} kAllowed[] = {
    {spv::CapabilityMatrix, nullptr, "matrices"},
    {spv::CapabilityShader, nullptr, "shaders"},
    {spv::CapabilityFloat16, &Features::float16, "16-bit float arithmetic"},
    {spv::CapabilityFloat64, &Features::float64, "64-bit floats"},
    {spv::CapabilityInt64, &Features::int64, "64-bit integers"},
    {spv::CapabilityInt16, &Features::int16, "16-bit integers"},
    {spv::CapabilityInt8, &Features::int8, "8-bit integers"},
    {spv::CapabilityGroupNonUniform, &Features::subgroup, "subgroups"},
    {spv::CapabilityGroupNonUniformVote, &Features::subgroup, "subgroup votes"},
    {spv::CapabilityGroupNonUniformArithmetic, &Features::subgroup, "subgroup arithmetic"},
    {spv::CapabilityGroupNonUniformBallot, &Features::subgroup, "subgroup ballots"},
    {spv::CapabilityGroupNonUniformShuffle, &Features::subgroup, "subgroup shuffles"},
    {spv::CapabilityGroupNonUniformShuffleRelative, &Features::subgroup, "relative subgroup shuffles"},
    {spv::CapabilityStorageBuffer16BitAccess, &Features::storage16, "16-bit storage"},
    {spv::CapabilityStorageBuffer8BitAccess, &Features::storage16, "8-bit storage"},
    {spv::CapabilityVulkanMemoryModel, &Features::memory_model, "the Vulkan memory model"},
    {spv::CapabilityVulkanMemoryModelDeviceScope, &Features::memory_model, "the Vulkan memory model"},
    {spv::CapabilityDotProduct, &Features::dot8, "integer dot products"},
    {spv::CapabilityDotProductInputAll, &Features::dot8, "integer dot products"},
    {spv::CapabilityDotProductInput4x8Bit, &Features::dot8, "integer dot products"},
    {spv::CapabilityDotProductInput4x8BitPacked, &Features::dot8, "integer dot products"},
    {spv::CapabilityInt64Atomics, &Features::atomic_int64, "the feature atomic_int64"},
    {spv::CapabilityAtomicFloat32AddEXT, &Features::atomic_float32, "the feature atomic_float32"},
    {spv::CapabilityAtomicFloat64AddEXT, &Features::atomic_float64, "the feature atomic_float64"},
    {spv::CapabilityVariablePointersStorageBuffer, &Features::variable_pointers, "the feature variable_pointers"},
    {spv::CapabilityGroupNonUniformClustered, &Features::subgroup_clustered, "the feature subgroup_clustered"},
    {spv::CapabilityGroupNonUniformQuad, &Features::subgroup_quad, "the feature subgroup_quad"},
    {spv::CapabilityCooperativeMatrixNV, &Features::coopmat_nv, "cooperative matrices"},
    {spv::Capability(6022), &Features::coopmat_khr,
     "cooperative matrices"}, // CooperativeMatrixKHR, which Debian 12's headers lack
    // CooperativeMatrixReductionsNV, …ConversionsNV, …PerElementOperationsNV
    {spv::Capability(5430), &Features::coopmat2_nv, "reductions of cooperative matrices"},
    {spv::Capability(5431), &Features::coopmat2_nv, "conversions of cooperative matrices"},
    {spv::Capability(5432), &Features::coopmat2_nv, "functions of the elements of cooperative matrices"},
};

// Names of other capabilities, all of which are refused because nothing enables them.
const struct {
    spv::Capability capability;
    const char *name;
} kRefused[] = {
    {spv::CapabilityAtomicFloat16AddEXT, "AtomicFloat16AddEXT"},
    {spv::CapabilityAtomicFloat32MinMaxEXT, "AtomicFloat32MinMaxEXT"},
    {spv::CapabilityAtomicFloat64MinMaxEXT, "AtomicFloat64MinMaxEXT"},
    {spv::CapabilityAtomicFloat16MinMaxEXT, "AtomicFloat16MinMaxEXT"},
    {spv::CapabilityVariablePointers, "VariablePointers"},
    {spv::CapabilityPhysicalStorageBufferAddresses, "PhysicalStorageBufferAddresses"},
    {spv::CapabilityUniformAndStorageBuffer16BitAccess, "UniformAndStorageBuffer16BitAccess"},
    {spv::CapabilityUniformAndStorageBuffer8BitAccess, "UniformAndStorageBuffer8BitAccess"},
    {spv::CapabilityStoragePushConstant16, "StoragePushConstant16"},
    {spv::CapabilityStoragePushConstant8, "StoragePushConstant8"},
    {spv::CapabilityRuntimeDescriptorArray, "RuntimeDescriptorArray"},
    {spv::CapabilityShaderClockKHR, "ShaderClockKHR"},
    {spv::CapabilityKernel, "Kernel"},
};

// Execution modes of floats, with the property of the device that each needs for floats of 16, 32 and 64 bits.
using FloatControls = vk::PhysicalDeviceFloatControlsProperties;
const struct {
    spv::ExecutionMode mode;
    vk::Bool32 FloatControls::*property[3];
    const char *what;
} kFloatModes[] = {
    {spv::ExecutionModeDenormPreserve,
     {&FloatControls::shaderDenormPreserveFloat16, &FloatControls::shaderDenormPreserveFloat32,
      &FloatControls::shaderDenormPreserveFloat64},
     "denormals"},
    {spv::ExecutionModeDenormFlushToZero,
     {&FloatControls::shaderDenormFlushToZeroFloat16, &FloatControls::shaderDenormFlushToZeroFloat32,
      &FloatControls::shaderDenormFlushToZeroFloat64},
     "denormals flushed to zero"},
    {spv::ExecutionModeSignedZeroInfNanPreserve,
     {&FloatControls::shaderSignedZeroInfNanPreserveFloat16, &FloatControls::shaderSignedZeroInfNanPreserveFloat32,
      &FloatControls::shaderSignedZeroInfNanPreserveFloat64},
     "signed zeros, infinities and NaNs"},
    {spv::ExecutionModeRoundingModeRTE,
     {&FloatControls::shaderRoundingModeRTEFloat16, &FloatControls::shaderRoundingModeRTEFloat32,
      &FloatControls::shaderRoundingModeRTEFloat64},
     "rounding to even"},
    {spv::ExecutionModeRoundingModeRTZ,
     {&FloatControls::shaderRoundingModeRTZFloat16, &FloatControls::shaderRoundingModeRTZFloat32,
      &FloatControls::shaderRoundingModeRTZFloat64},
     "rounding to zero"},
};

} // namespace

void check_capability(const Device &device, uint32_t capability) {
    for (const auto &allowed : kAllowed) {
        if (uint32_t(allowed.capability) != capability) {
            continue;
        }
        if (allowed.feature != nullptr && !(device.features().*allowed.feature)) {
            fail(KPX_UNSUPPORTED, "the shader needs {}, which this device does not have, or was not opened with",
                 allowed.what);
        }
        return;
    }
    // Rounding and denormal modes of floats depend on the device's properties, which execution modes are compared with.
    if (capability >= spv::CapabilityDenormPreserve && capability <= spv::CapabilityRoundingModeRTZ) {
        return;
    }
    for (const auto &refused : kRefused) {
        if (uint32_t(refused.capability) == capability) {
            fail(KPX_UNSUPPORTED, "the shader needs the capability {}, which is not enabled", refused.name);
        }
    }
    fail(KPX_UNSUPPORTED, "the shader needs the capability {} of SPIR-V, which is not enabled", capability);
}

void check_float_mode(const Device &device, uint32_t mode, uint32_t bits) {
    for (const auto &known : kFloatModes) {
        if (uint32_t(known.mode) != mode) {
            continue;
        }
        FloatControls controls;
        vk::PhysicalDeviceProperties2 properties;
        properties.pNext = &controls;
        device.physical().getProperties2(&properties);
        const bool has = bits == 16   ? controls.*known.property[0]
                         : bits == 32 ? controls.*known.property[1]
                                      : bits == 64 && controls.*known.property[2];
        if (!has) {
            fail(KPX_UNSUPPORTED, "the shader needs {} of {}-bit floats, which this device does not have", known.what,
                 bits);
        }
    }
}

} // namespace kpx
