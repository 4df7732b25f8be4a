#include "runtime/spirv.hpp"

#include <cstring>

#include <spirv/unified1/spirv.hpp>

#include "abi/error.hpp"
#include "runtime/device.hpp"

namespace kpx {

namespace {

constexpr uint32_t kMostVersion = 0x00010500; // 1.5, as Vulkan 1.2 takes it
constexpr uint32_t kHeaderWords = 5;          // of a module

const struct {
    spv::Capability capability;
    bool Features::*feature;
    const char *what;
} kCapabilities[] = {
    {spv::CapabilityFloat16, &Features::float16, "16-bit float arithmetic"},
    {spv::CapabilityFloat64, &Features::float64, "64-bit floats"},
    {spv::CapabilityInt64, &Features::int64, "64-bit integers"},
    {spv::CapabilityInt16, &Features::int16, "16-bit integers"},
    {spv::CapabilityInt8, &Features::int8, "8-bit integers"},
    {spv::CapabilityGroupNonUniformArithmetic, &Features::subgroup, "subgroup arithmetic"},
    {spv::CapabilityGroupNonUniformBallot, &Features::subgroup, "subgroup ballots"},
    {spv::CapabilityGroupNonUniformShuffle, &Features::subgroup, "subgroup shuffles"},
    {spv::CapabilityStorageBuffer16BitAccess, &Features::storage16, "16-bit storage"},
    {spv::CapabilityStorageBuffer8BitAccess, &Features::storage16, "8-bit storage"},
    {spv::CapabilityVulkanMemoryModel, &Features::memory_model, "the Vulkan memory model"},
};

void check_capability(const Device &device, uint32_t capability) {
    for (const auto &known : kCapabilities) {
        if (known.capability == capability && !(device.features().*known.feature)) {
            fail(KPX_UNSUPPORTED, "the shader needs {}, which this device does not have", known.what);
        }
    }
}

// Whether the literal string at words is "main".
bool is_main(const uint32_t *words, uint32_t count) {
    static const char name[8] = {'m', 'a', 'i', 'n', 0, 0, 0, 0};
    return count >= 2 && memcmp(words, name, sizeof name) == 0;
}

struct Scan {
    const Device &device;
    uint32_t bindings;
    bool has_main = false;

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
        }
    }

    void local_size(uint64_t x, uint64_t y, uint64_t z) const {
        const auto &most = device.limits().maxComputeWorkGroupSize;
        const uint32_t invocations = device.limits().maxComputeWorkGroupInvocations;
        if (x > most[0] || y > most[1] || z > most[2] || x * y * z > invocations) {
            fail(KPX_INVALID, "the shader's workgroup of {} x {} x {} is beyond this device's {} invocations", x, y, z,
                 invocations);
        }
    }

    void decoration(const uint32_t *words, uint32_t count) const {
        if (count != 4) {
            return;
        }
        if (words[2] == spv::DecorationDescriptorSet && words[3] != 0) {
            fail(KPX_INVALID, "the shader uses descriptor set {}; tensors are in set 0", words[3]);
        }
        if (words[2] == spv::DecorationBinding && words[3] >= bindings) {
            fail(KPX_INVALID, "the shader uses binding {}, but {} tensors are given", words[3], bindings);
        }
    }
};

} // namespace

void check_spirv(const Device &device, const uint32_t *words, uint64_t count, uint32_t bindings) {
    if (words == nullptr || count < kHeaderWords || words[0] != spv::MagicNumber) {
        fail(KPX_INVALID, "this is not SPIR-V");
    }
    if (count > UINT32_MAX / 4) {
        fail(KPX_INVALID, "a SPIR-V module of {} words", count);
    }
    if (words[1] > kMostVersion) {
        fail(KPX_UNSUPPORTED, "SPIR-V {}.{}; Vulkan 1.2 takes up to 1.5", words[1] >> 16, (words[1] >> 8) & 0xff);
    }
    Scan scan{device, bindings};
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
}

} // namespace kpx
