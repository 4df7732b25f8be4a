#include "runtime/spirv.hpp"

#include <cstring>

#include "abi/error.hpp"
#include "runtime/device.hpp"

namespace kpx {

namespace {

// From the SPIR-V specification, section 3.
constexpr uint32_t kMagic = 0x07230203;
constexpr uint32_t kOpEntryPoint = 15, kOpExecutionMode = 16, kOpCapability = 17, kOpDecorate = 71;
constexpr uint32_t kModelGLCompute = 5;
constexpr uint32_t kModeLocalSize = 17;
constexpr uint32_t kDecorationBinding = 33, kDecorationDescriptorSet = 34;

const struct {
    uint32_t capability;
    bool Features::*feature;
    const char *what;
} kCapabilities[] = {
    {9, &Features::float16, "16-bit float arithmetic"},
    {10, &Features::float64, "64-bit floats"},
    {11, &Features::int64, "64-bit integers"},
    {22, &Features::int16, "16-bit integers"},
    {39, &Features::int8, "8-bit integers"},
    {63, &Features::subgroup, "subgroup arithmetic"},
    {64, &Features::subgroup, "subgroup ballots"},
    {65, &Features::subgroup, "subgroup shuffles"},
    {4433, &Features::storage16, "16-bit storage"},
    {4448, &Features::storage16, "8-bit storage"},
    {5345, &Features::memory_model, "the Vulkan memory model"},
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
        switch (words[0] & 0xffff) {
        case kOpCapability:
            if (count > 1) {
                check_capability(device, words[1]);
            }
            break;
        case kOpEntryPoint:
            has_main = has_main || (count > 4 && words[1] == kModelGLCompute && is_main(words + 3, count - 3));
            break;
        case kOpExecutionMode:
            if (count == 6 && words[2] == kModeLocalSize) {
                local_size(words[3], words[4], words[5]);
            }
            break;
        case kOpDecorate:
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
        if (words[2] == kDecorationDescriptorSet && words[3] != 0) {
            fail(KPX_INVALID, "the shader uses descriptor set {}; tensors are in set 0", words[3]);
        }
        if (words[2] == kDecorationBinding && words[3] >= bindings) {
            fail(KPX_INVALID, "the shader uses binding {}, but {} tensors are given", words[3], bindings);
        }
    }
};

} // namespace

void check_spirv(const Device &device, const uint32_t *words, uint64_t count, uint32_t bindings) {
    if (words == nullptr || count < 5 || words[0] != kMagic) {
        fail(KPX_INVALID, "this is not SPIR-V");
    }
    if (count > UINT32_MAX / 4) {
        fail(KPX_INVALID, "a SPIR-V module of {} words", count);
    }
    if (words[1] > 0x00010500) {
        fail(KPX_UNSUPPORTED, "SPIR-V {}.{}; Vulkan 1.2 takes up to 1.5", words[1] >> 16, (words[1] >> 8) & 0xff);
    }
    Scan scan{device, bindings};
    for (uint64_t at = 5; at < count;) {
        const uint32_t length = words[at] >> 16;
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
