#include "runtime/spirv.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <spirv/unified1/spirv.hpp>
#ifdef KPX_SPIRV_TOOLS
#include <spirv-tools/libspirv.h>
#endif

#include "abi/error.hpp"
#include "runtime/device.hpp"
#include "runtime/spirv_capabilities.hpp"
#include "runtime/spirv_types.hpp"

namespace kpx {

namespace {

constexpr uint32_t kMostVersion = 0x00010500; // 1.5, which Vulkan 1.2 accepts

// Whether the literal string at words is "main".
bool is_main(const uint32_t *words, uint32_t count) {
    static const char name[8] = {'m', 'a', 'i', 'n', 0, 0, 0, 0};
    return count >= 2 && memcmp(words, name, sizeof name) == 0;
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
    struct Variable {
        uint32_t id, type, storage; // the type that it holds
    };
    std::vector<Variable> variables = {};
    bool in_functions = false;
    std::unordered_set<uint32_t> used = {}; // all numbers in functions, and so at least all ids

    // words[0] is the instruction's first word, count its length.
    void instruction(const uint32_t *words, uint32_t count) {
        types.instruction(words, count);
        in_functions = in_functions || (words[0] & spv::OpCodeMask) == spv::OpFunction;
        if (in_functions) {
            used.insert(words + 1, words + count);
        }
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
            if (count > 3 && !in_functions) {
                variables.push_back({words[2], types.type(words[1]).inner, words[3]});
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

    // Compilers keep variables that nothing uses, which need not fit.
    void check_variables() {
        for (const Variable &v : variables) {
            if (used.count(v.id) != 0) {
                variable(v.id, v.type, v.storage);
            }
        }
    }

    void variable(uint32_t id, uint32_t type, uint32_t storage) {
        const SpirvType &content = types.type(type);
        if (storage == spv::StorageClassPushConstant) {
            push_constants(content);
        } else if (storage == spv::StorageClassWorkgroup) {
            shared_bytes += content.packed.value_or(0); // a size by an unknown constant expression is the driver's
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
        if (types.type(type).op == spv::OpTypeArray && types.value(types.type(type).count) == 1) {
            type = types.type(type).inner; // an array of one buffer is a buffer
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

    void finish() {
        check_variables();
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

// Whether these tools know all of the module's capabilities: they may be older than the compiler that made it.
bool know_capabilities(const Context &context, const uint32_t *words, uint64_t count) {
    std::vector<uint32_t> module(words, words + kSpirvHeaderWords);
    for (uint64_t at = kSpirvHeaderWords; at < count; at += words[at] >> spv::WordCountShift) {
        if ((words[at] & spv::OpCodeMask) == spv::OpCapability) {
            module.insert(module.end(), words + at, words + at + (words[at] >> spv::WordCountShift));
        }
    }
    return spvBinaryParse(context.handle, nullptr, module.data(), module.size(), nullptr, nullptr, nullptr) ==
           SPV_SUCCESS;
}
#endif

} // namespace

#ifdef KPX_SPIRV_TOOLS
// The validator that Vulkan's own layers use. A driver must accept what it accepts.
void validate_spirv(const uint32_t *words, uint64_t count) {
    const Context context;
    if (!know_capabilities(context, words, count)) {
        return;
    }
    spv_diagnostic diagnostic = nullptr;
    const spv_result_t result = spvValidateBinary(context.handle, words, count, &diagnostic);
    std::string reason = diagnostic != nullptr && diagnostic->error != nullptr ? diagnostic->error : "no reason given";
    spvDiagnosticDestroy(diagnostic);
    if (result != SPV_SUCCESS) {
        fail(KPX_INVALID, "the SPIR-V is invalid: {}", reason);
    }
}
#else
void validate_spirv(const uint32_t *, uint64_t) {}
#endif

uint64_t check_spirv(const Device &device, const uint32_t *words, uint64_t count, const ShaderCall &call) {
    if (words == nullptr || count < kSpirvHeaderWords || words[0] != spv::MagicNumber) {
        fail(KPX_INVALID, "this is not SPIR-V");
    }
    if (count > UINT32_MAX / 4) {
        fail(KPX_INVALID, "a SPIR-V module of {} words", count);
    }
    if (words[1] > kMostVersion) {
        fail(KPX_UNSUPPORTED, "SPIR-V {}.{}; Vulkan 1.2 takes up to 1.5", words[1] >> 16, (words[1] >> 8) & 0xff);
    }
    Scan scan{device, call};
    for (uint64_t at = kSpirvHeaderWords; at < count;) {
        const uint32_t length = words[at] >> spv::WordCountShift;
        if (length == 0 || length > count - at) {
            fail(KPX_INVALID, "the SPIR-V is damaged at word {}", at);
        }
        scan.instruction(words + at, length);
        at += length;
    }
    scan.finish();
    validate_spirv(words, count);
    return scan.writes;
}

} // namespace kpx
