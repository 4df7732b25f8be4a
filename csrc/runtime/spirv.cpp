#include "runtime/spirv.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include <spirv/unified1/spirv.hpp>
#ifdef KPX_SPIRV_TOOLS
#include <spirv-tools/libspirv.h>
#endif

#include "abi/error.hpp"
#include "runtime/device.hpp"
#include "runtime/spirv_types.hpp"

namespace kpx {

namespace {

constexpr uint32_t kMostVersion = 0x00010500; // 1.5, which Vulkan 1.2 accepts
constexpr uint32_t kHeaderWords = 5;          // of a module

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

// Whether the literal string at words is "main".
bool is_main(const uint32_t *words, uint32_t count) {
    static const char name[8] = {'m', 'a', 'i', 'n', 0, 0, 0, 0};
    return count >= 2 && memcmp(words, name, sizeof name) == 0;
}

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

struct Scan {
    const Device &device;
    const ShaderCall &call;
    SpirvTypes types{call.spec, call.n_spec};
    std::optional<uint32_t> main = {}; // the entry point's id
    // The workgroup's size, and the id of a constant that overrides the entry point's.
    std::array<std::optional<uint32_t>, 3> size = {};
    std::optional<uint32_t> size_id = {};
    uint64_t shared_bytes = 0, writes = 0;

    // words[0] is the instruction's first word, count its length.
    void instruction(const uint32_t *words, uint32_t count) {
        types.instruction(words, count);
        switch (words[0] & spv::OpCodeMask) {
        case spv::OpCapability:
            if (count > 1) {
                check_capability(device, words[1]);
            }
            break;
        case spv::OpEntryPoint:
            if (count > 4 && words[1] == spv::ExecutionModelGLCompute && is_main(words + 3, count - 3)) {
                main = words[2];
            }
            break;
        case spv::OpExecutionMode:
        case spv::OpExecutionModeId:
            if (count > 3 && main == words[1]) {
                execution_mode(words, count);
            }
            break;
        case spv::OpDecorate:
            decoration(words, count);
            break;
        case spv::OpConstantComposite:
        case spv::OpSpecConstantComposite:
            if (count == 6 && size_id == words[2]) {
                size = {types.value(words[3]), types.value(words[4]), types.value(words[5])};
            }
            break;
        case spv::OpVariable:
            if (count > 3) {
                variable(words[2], types.type(words[1]).inner, words[3]);
            }
            break;
        }
    }

    void execution_mode(const uint32_t *words, uint32_t count) {
        check_float_mode(device, words[2], words[3]);
        if (words[2] == spv::ExecutionModeLocalSizeId) {
            fail(KPX_UNSUPPORTED, "the shader's workgroup has the execution mode LocalSizeId, which Vulkan 1.2 lacks");
        }
        if (count == 6 && words[2] == spv::ExecutionModeLocalSize) {
            size = {words[3], words[4], words[5]};
        }
    }

    void decoration(const uint32_t *words, uint32_t count) {
        if (count < 4) {
            return;
        }
        if (words[2] == spv::DecorationBuiltIn && words[3] == spv::BuiltInWorkgroupSize) {
            size_id = words[1];
        }
        if (words[2] == spv::DecorationDescriptorSet && words[3] != 0) {
            fail(KPX_INVALID, "the shader uses descriptor set {}; tensors are in set 0", words[3]);
        }
        if (words[2] == spv::DecorationBinding && words[3] >= call.bindings) {
            fail(KPX_INVALID, "the shader uses binding {}, but {} tensors are given", words[3], call.bindings);
        }
    }

    void variable(uint32_t id, uint32_t type, uint32_t storage) {
        const SpirvType &content = types.type(type);
        if (storage == spv::StorageClassPushConstant) {
            push_constants(content);
        } else if (storage == spv::StorageClassWorkgroup) {
            if (!content.packed) {
                fail(KPX_UNSUPPORTED, "a constant expression that a size in the shader's shared memory depends on is "
                                      "not supported");
            }
            shared_bytes += *content.packed;
        } else if (storage == spv::StorageClassStorageBuffer || storage == spv::StorageClassUniform ||
                   storage == spv::StorageClassUniformConstant || types.has(id, spv::DecorationBinding)) {
            resource(id, type, storage);
        }
    }

    void push_constants(const SpirvType &block) const {
        if (!block.laid_out) {
            fail(KPX_UNSUPPORTED, "the size of the shader's push constants is not known");
        }
        if (*block.laid_out > call.push_bytes) {
            fail(KPX_INVALID, "the shader's push constants take {} bytes, {} given", *block.laid_out, call.push_bytes);
        }
    }

    // What the shader binds must be a storage buffer: nothing else is in the layout of the pipeline.
    void resource(uint32_t id, uint32_t type, uint32_t storage) {
        const auto binding = types.literal(id, spv::DecorationBinding);
        if (!binding) {
            fail(KPX_INVALID, "the shader has a buffer or an image without a binding");
        }
        const SpirvType &content = types.type(type);
        const bool array = content.op == spv::OpTypeArray || content.op == spv::OpTypeRuntimeArray;
        const bool buffer = storage == spv::StorageClassStorageBuffer || storage == spv::StorageClassUniform;
        if (buffer && array) {
            fail(KPX_INVALID, "binding {} of the shader is an array; each binding is one storage buffer", *binding);
        }
        if (!buffer || content.op != spv::OpTypeStruct ||
            (storage == spv::StorageClassUniform && !types.has(type, spv::DecorationBufferBlock))) {
            fail(KPX_INVALID, "binding {} of the shader is not a storage buffer, which tensors are bound as", *binding);
        }
        if (!content.read_only && !types.has(id, spv::DecorationNonWritable)) {
            writes |= uint64_t(1) << *binding;
        }
    }

    void finish() const {
        if (!main) {
            fail(KPX_INVALID, "the SPIR-V has no compute entry point \"main\"");
        }
        if (call.n_spec > types.spec_constants()) {
            fail(KPX_INVALID, "{} specialization constants are given, the shader has {}", call.n_spec,
                 types.spec_constants());
        }
        workgroup();
        if (const uint32_t most = device.traits().max_shared_bytes; shared_bytes > most) {
            fail(KPX_INVALID, "the shader's shared memory of {} bytes is beyond this device's {}", shared_bytes, most);
        }
    }

    void workgroup() const {
        if (!size[0] || !size[1] || !size[2]) {
            fail(KPX_UNSUPPORTED, "the size of the shader's workgroup is not known");
        }
        const uint64_t x = *size[0], y = *size[1], z = *size[2];
        const auto &most = device.limits().maxComputeWorkGroupSize;
        const uint32_t invocations = device.limits().maxComputeWorkGroupInvocations;
        if (x == 0 || y == 0 || z == 0) {
            fail(KPX_INVALID, "the shader's workgroup of {} x {} x {} has no invocations", x, y, z);
        }
        if (x > most[0] || y > most[1] || z > most[2] || x * y * z > invocations) {
            fail(KPX_INVALID, "the shader's workgroup of {} x {} x {} is beyond this device's {} invocations", x, y, z,
                 invocations);
        }
        const uint32_t subgroups = device.subgroup_sizes().per_workgroup;
        if (call.subgroup_size != 0 && x * y * z > uint64_t(call.subgroup_size) * subgroups) {
            fail(KPX_UNSUPPORTED, "the shader's workgroup of {} x {} x {} is beyond this device's {} subgroups of {}",
                 x, y, z, subgroups, call.subgroup_size);
        }
    }
};

#ifdef KPX_SPIRV_TOOLS
struct Context {
    spv_context handle = spvContextCreate(SPV_ENV_VULKAN_1_2);
    ~Context() { spvContextDestroy(handle); }
};

// The validator that Vulkan's own layers use. A driver must accept what it accepts.
void validate(const uint32_t *words, uint64_t count) {
    const Context context;
    spv_diagnostic diagnostic = nullptr;
    const spv_result_t result = spvValidateBinary(context.handle, words, count, &diagnostic);
    std::string reason = diagnostic != nullptr && diagnostic->error != nullptr ? diagnostic->error : "no reason given";
    spvDiagnosticDestroy(diagnostic);
    if (result != SPV_SUCCESS) {
        fail(KPX_INVALID, "the SPIR-V is invalid: {}", reason);
    }
}
#else
void validate(const uint32_t *, uint64_t) {}
#endif

} // namespace

uint64_t check_spirv(const Device &device, const uint32_t *words, uint64_t count, const ShaderCall &call) {
    if (words == nullptr || count < kHeaderWords || words[0] != spv::MagicNumber) {
        fail(KPX_INVALID, "this is not SPIR-V");
    }
    if (count > UINT32_MAX / 4) {
        fail(KPX_INVALID, "a SPIR-V module of {} words", count);
    }
    if (words[1] > kMostVersion) {
        fail(KPX_UNSUPPORTED, "SPIR-V {}.{}; Vulkan 1.2 takes up to 1.5", words[1] >> 16, (words[1] >> 8) & 0xff);
    }
    Scan scan{device, call};
    for (uint64_t at = kHeaderWords; at < count;) {
        const uint32_t length = words[at] >> spv::WordCountShift;
        if (length == 0 || length > count - at) {
            fail(KPX_INVALID, "the SPIR-V is damaged at word {}", at);
        }
        scan.instruction(words + at, length);
        at += length;
    }
    scan.finish();
    validate(words, count);
    return scan.writes;
}

} // namespace kpx
