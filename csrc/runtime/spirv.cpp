#include "runtime/spirv.hpp"

#include <cstring>
#include <map>
#include <optional>
#include <string>

#include <spirv/unified1/spirv.hpp>
#ifdef KPX_SPIRV_TOOLS
#include <spirv-tools/libspirv.h>
#endif

#include "abi/error.hpp"
#include "runtime/device.hpp"

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
    // Rounding and denormal modes of floats depend on the device's properties, not on features.
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

struct Scan {
    const Device &device;
    uint32_t bindings;
    const uint32_t *spec; // given specialization constants
    uint32_t n_spec;
    bool has_main = false;
    // By result id: which specialization constant it is, and its value or a constant's. Decorations come first in a
    // module, and constants before what is composed of them.
    std::map<uint32_t, uint32_t> spec_ids = {}, values = {};
    std::optional<uint32_t> workgroup_size = {}; // the id of a constant that overrides the entry point's

    // words[0] is the instruction's first word, count its length.
    void instruction(const uint32_t *words, uint32_t count) {
        switch (words[0] & spv::OpCodeMask) {
        case spv::OpCapability:
            if (count > 1) {
                check_capability(device, words[1]);
            }
            break;
        case spv::OpEntryPoint:
            has_main =
                has_main || (count > 4 && words[1] == spv::ExecutionModelGLCompute && is_main(words + 3, count - 3));
            break;
        case spv::OpExecutionMode:
            if (count == 6 && words[2] == spv::ExecutionModeLocalSize) {
                local_size(words[3], words[4], words[5]);
            }
            break;
        case spv::OpDecorate:
            decoration(words, count);
            break;
        case spv::OpConstant:
        case spv::OpSpecConstant:
            constant(words, count);
            break;
        case spv::OpConstantComposite:
        case spv::OpSpecConstantComposite:
            if (count == 6 && workgroup_size == words[2]) {
                local_size(values[words[3]], values[words[4]], values[words[5]]);
            }
            break;
        }
    }

    void constant(const uint32_t *words, uint32_t count) {
        if (count < 4) {
            return;
        }
        const auto known = spec_ids.find(words[2]);
        values[words[2]] = known != spec_ids.end() && known->second < n_spec ? spec[known->second] : words[3];
    }

    void local_size(uint64_t x, uint64_t y, uint64_t z) const {
        const auto &most = device.limits().maxComputeWorkGroupSize;
        const uint32_t invocations = device.limits().maxComputeWorkGroupInvocations;
        if (x > most[0] || y > most[1] || z > most[2] || x * y * z > invocations) {
            fail(KPX_INVALID, "the shader's workgroup of {} x {} x {} is beyond this device's {} invocations", x, y, z,
                 invocations);
        }
    }

    void decoration(const uint32_t *words, uint32_t count) {
        if (count != 4) {
            return;
        }
        if (words[2] == spv::DecorationSpecId) {
            spec_ids[words[1]] = words[3];
        }
        if (words[2] == spv::DecorationBuiltIn && words[3] == spv::BuiltInWorkgroupSize) {
            workgroup_size = words[1];
        }
        if (words[2] == spv::DecorationDescriptorSet && words[3] != 0) {
            fail(KPX_INVALID, "the shader uses descriptor set {}; tensors are in set 0", words[3]);
        }
        if (words[2] == spv::DecorationBinding && words[3] >= bindings) {
            fail(KPX_INVALID, "the shader uses binding {}, but {} tensors are given", words[3], bindings);
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

void check_spirv(const Device &device, const uint32_t *words, uint64_t count, uint32_t bindings, const uint32_t *spec,
                 uint32_t n_spec) {
    if (words == nullptr || count < kHeaderWords || words[0] != spv::MagicNumber) {
        fail(KPX_INVALID, "this is not SPIR-V");
    }
    if (count > UINT32_MAX / 4) {
        fail(KPX_INVALID, "a SPIR-V module of {} words", count);
    }
    if (words[1] > kMostVersion) {
        fail(KPX_UNSUPPORTED, "SPIR-V {}.{}; Vulkan 1.2 takes up to 1.5", words[1] >> 16, (words[1] >> 8) & 0xff);
    }
    Scan scan{device, bindings, spec, n_spec};
    for (uint64_t at = kHeaderWords; at < count;) {
        const uint32_t length = words[at] >> spv::WordCountShift;
        if (length == 0 || length > count - at) {
            fail(KPX_INVALID, "the SPIR-V is damaged at word {}", at);
        }
        scan.instruction(words + at, length);
        at += length;
    }
    if (!scan.has_main) {
        fail(KPX_INVALID, "the SPIR-V has no compute entry point \"main\"");
    }
    validate(words, count);
}

} // namespace kpx
