// The caller's own SPIR-V: what is refused, and why.
#include <cstring>
#include <random>

#include "abi/handles.hpp"
#include "runtime/device.hpp"
#include "runtime/embedded.hpp"
#include "runtime/spirv.hpp"
#include "runtime/spirv_types.hpp"
#include "shaders.hpp"
#include "test.hpp"

static kpx_result create(const Device &device, const std::vector<uint32_t> &spirv, uint32_t bindings,
                         uint32_t push_bytes, kpx_error *err) {
    kpx_algorithm *algorithm = nullptr;
    const kpx_result result = kpx_algorithm_create(device.get(), spirv.data(), spirv.size(), bindings, nullptr, 0,
                                                   push_bytes, 0, &algorithm, err);
    kpx_algorithm_destroy(algorithm);
    return result;
}

TEST(bad_spirv_is_refused) {
    kpx_error err{};
    Device device = open_device();
    REQUIRE_CODE(KPX_INVALID, create(device, {}, 1, 4, &err));
    REQUIRE_CODE(KPX_INVALID, create(device, {1, 2, 3, 4, 5, 6, 7}, 1, 4, &err));
    std::vector<uint32_t> cut(spirv_add_one.begin(), spirv_add_one.end() - 3);
    REQUIRE_CODE(KPX_INVALID, create(device, cut, 1, 4, &err));
    std::vector<uint32_t> header(spirv_add_one.begin(), spirv_add_one.begin() + 5);
    REQUIRE_CODE(KPX_INVALID, create(device, header, 1, 4, &err)); // no entry point
    std::vector<uint32_t> zeroed = spirv_add_one;
    zeroed[5] = 0; // an instruction of no words
    REQUIRE_CODE(KPX_INVALID, create(device, zeroed, 1, 4, &err));
    std::vector<uint32_t> future = spirv_add_one;
    future[1] = 0x00020000;
    REQUIRE_CODE(KPX_UNSUPPORTED, create(device, future, 1, 4, &err));
    CHECK(err.message == std::string("SPIR-V 2.0; Vulkan 1.2 takes up to 1.5"));
}

// Whatever a module's words are, checking it only accepts or refuses it.
TEST(checking_damaged_spirv_does_no_harm) {
    Device device = open_device();
    std::mt19937 random(1);
    const std::vector<uint32_t> *shaders[] = {&spirv_mix_neighbours, &spirv_add_one};
    const uint32_t spec[2] = {1, 2};
    for (uint32_t i = 0; i < 4000; i++) {
        std::vector<uint32_t> spirv = *shaders[i % 2];
        for (uint32_t changes = 1 + random() % 4; changes > 0; changes--) {
            const uint32_t other = spirv[random() % spirv.size()], kinds[] = {uint32_t(random()), other, other ^ 1, 0};
            spirv[5 + random() % (spirv.size() - 5)] = kinds[random() % 4];
        }
        try {
            kpx::check_spirv(*kpx::device_of(device.get()), spirv.data(), spirv.size(), {2, spec, i % 3, 4, 0});
        } catch (const kpx::Error &) {
        }
    }
}

// Types consist of types that were declared before, so none contains itself, and whoever looks into one comes to an
// end.
TEST(spirv_declares_each_type_once) {
    constexpr uint32_t kInteger = 4u << 16 | 21; // OpTypeInt
    const uint32_t five[] = {kInteger, 5, 32, 0}, none[] = {kInteger, 0, 32, 0};
    for (const uint32_t *words : {five, none}) {
        kpx::SpirvTypes types(nullptr, 0);
        types.instruction(five, 4);
        try {
            types.instruction(words, 4);
            CHECK(!"it was accepted");
        } catch (const kpx::Error &e) {
            CHECK(e.code == KPX_INVALID);
        }
    }
}

// The shader with one more capability, after the header.
static std::vector<uint32_t> asking_for(uint32_t capability) {
    std::vector<uint32_t> spirv = spirv_add_one;
    const uint32_t instruction[2] = {2u << 16 | 17, capability}; // OpCapability
    spirv.insert(spirv.begin() + 5, instruction, instruction + 2);
    return spirv;
}

TEST(capabilities_that_are_not_enabled_are_refused_by_name) {
    kpx_error err{};
    Device device = open_device();
    CHECK(create(device, asking_for(1), 1, 4, &err) == KPX_OK); // Shader, again
    REQUIRE_CODE(KPX_UNSUPPORTED, create(device, asking_for(6095), 1, 4, &err));
    CHECK(err.message == std::string("the shader needs the capability AtomicFloat16AddEXT, which is not enabled"));
    REQUIRE_CODE(KPX_UNSUPPORTED, create(device, asking_for(6), 1, 4, &err));
    CHECK(err.message == std::string("the shader needs the capability Kernel, which is not enabled"));
    REQUIRE_CODE(KPX_UNSUPPORTED, create(device, asking_for(12345), 1, 4, &err));
    CHECK(err.message == std::string("the shader needs the capability 12345 of SPIR-V, which is not enabled"));
}

// A mode of floats is accepted if the device has the property that it needs.
TEST(modes_of_floats_need_their_properties) {
    kpx_error err{};
    Device device = open_device();
    vk::PhysicalDeviceFloatControlsProperties has;
    vk::PhysicalDeviceProperties2 properties;
    properties.pNext = &has;
    kpx::device_of(device.get())->physical().getProperties2(&properties);
    const struct {
        uint32_t mode, bits;
        bool supported;
    } modes[] = {
        {4459, 16, bool(has.shaderDenormPreserveFloat16)},
        {4459, 32, bool(has.shaderDenormPreserveFloat32)},
        {4459, 64, bool(has.shaderDenormPreserveFloat64)},
        {4460, 32, bool(has.shaderDenormFlushToZeroFloat32)},
        {4460, 64, bool(has.shaderDenormFlushToZeroFloat64)},
        {4461, 32, bool(has.shaderSignedZeroInfNanPreserveFloat32)},
        {4462, 32, bool(has.shaderRoundingModeRTEFloat32)},
        {4463, 32, bool(has.shaderRoundingModeRTZFloat32)},
        {4463, 64, bool(has.shaderRoundingModeRTZFloat64)},
    };
    for (const auto &[mode, bits, supported] : modes) {
        std::vector<uint32_t> spirv = asking_for(4464 + mode - 4459);
        size_t at = 5;
        while ((spirv[at] & 0xffff) != 15) { // OpEntryPoint
            at += spirv[at] >> 16;
        }
        const uint32_t main = spirv[at + 2];
        const uint32_t instruction[4] = {4u << 16 | 16, main, mode, bits}; // OpExecutionMode
        at += spirv[at] >> 16;
        spirv.insert(spirv.begin() + ptrdiff_t(at), instruction, instruction + 4);
        const kpx_result result = create(device, spirv, 1, 4, &err);
        CHECK(result == (supported ? KPX_OK : KPX_UNSUPPORTED));
        CHECK(supported || strstr(err.message, "-bit floats, which this device does not have") != nullptr);
    }
}

#ifdef KPX_SPIRV_TOOLS
// An error that shows in no single instruction: the use of a result that nothing
// defines.
TEST(invalid_spirv_is_refused) {
    kpx_error err{};
    Device device = open_device();
    std::vector<uint32_t> spirv = spirv_add_one;
    for (size_t at = 5; at < spirv.size(); at += spirv[at] >> 16) {
        if ((spirv[at] & 0xffff) == 62) { // OpStore
            spirv[at + 2] = spirv[3] - 1; // within the bound, but no value
            break;
        }
    }
    REQUIRE_CODE(KPX_INVALID, create(device, spirv, 1, 4, &err));
    CHECK(strstr(err.message, "the SPIR-V is invalid: ") != nullptr);
}
#endif

// Not even those with capabilities that SPIRV-Tools may be too old to know.
TEST(no_kernel_is_invalid) {
    for (uint32_t i = 0; i < kpx::embedded_kernel_count; i++) {
        const kpx::EmbeddedKernel &kernel = kpx::embedded_kernels[i];
        kpx::validate_spirv(kernel.spirv, kernel.bytes() / 4);
    }
}

TEST(algorithms_must_fit_their_shader_and_device) {
    kpx_error err{};
    Device device = open_device();
    REQUIRE_CODE(KPX_INVALID, create(device, spirv_mix_neighbours, 1, 4, &err)); // it uses two bindings
    CHECK(err.message == std::string("the shader uses binding 1, but 1 tensors are given"));
    REQUIRE_CODE(KPX_INVALID, create(device, spirv_add_one, 0, 4, &err));
    REQUIRE_CODE(KPX_INVALID, create(device, spirv_add_one, 100000, 4, &err));
    REQUIRE_CODE(KPX_INVALID, create(device, spirv_add_one, 1, 3, &err));
    REQUIRE_CODE(KPX_INVALID, create(device, spirv_add_one, 1, 1 << 20, &err));
    kpx_algorithm *algorithm = nullptr;
    REQUIRE_CODE(KPX_INVALID, kpx_algorithm_create(device.get(), nullptr, 100, 1, nullptr, 0, 4, 0, &algorithm, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_algorithm_create(device.get(), spirv_add_one.data(), spirv_add_one.size(), 1, nullptr,
                                                   1000, 4, 0, &algorithm, &err));
}

TEST(dispatches_must_fit_their_algorithm) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Algorithm add = new_algorithm(device, spirv_add_one, 1, {1}, 4);
    Storage buffer = new_storage(device, 4096);
    const uint32_t one[3] = {1, 1, 1}, none[3] = {1, 0, 1}, many[3] = {UINT32_MAX, 1, 1}, n = 64;
    const kpx_array good = words_of(buffer, 64, KPX_READ_WRITE);
    auto dispatch = [&](kpx_array array, const uint32_t *groups, uint32_t arrays, uint32_t push_bytes) {
        const kpx_array list[2] = {array, array};
        return kpx_dispatch(stream.get(), add.get(), list, arrays, groups, &n, push_bytes, &err);
    };
    upload(stream, buffer, std::vector<uint32_t>(1024, 1));
    REQUIRE_OK(dispatch(good, one, 1, 4));
    REQUIRE_CODE(KPX_INVALID, dispatch(good, none, 1, 4));
    REQUIRE_CODE(KPX_INVALID, dispatch(good, many, 1, 4));
    REQUIRE_CODE(KPX_INVALID, dispatch(good, one, 2, 4));
    REQUIRE_CODE(KPX_INVALID, dispatch(good, one, 1, 0));
    REQUIRE_CODE(KPX_INVALID, dispatch(kpx_array{}, one, 1, 4));
    kpx_array odd = good;
    odd.offset = 1;
    REQUIRE_CODE(KPX_INVALID, dispatch(odd, one, 1, 4));
    kpx_array gaps = good;
    gaps.strides[0] = 2;
    REQUIRE_CODE(KPX_INVALID, dispatch(gaps, one, 1, 4));
    kpx_array beyond = good;
    beyond.shape[0] = 1025;
    REQUIRE_CODE(KPX_INVALID, dispatch(beyond, one, 1, 4));
    kpx_array huge = good;
    huge.shape[0] = INT64_MAX;
    huge.strides[0] = INT64_MAX;
    REQUIRE_CODE(KPX_INVALID, dispatch(huge, one, 1, 4));
    kpx_array negative = good;
    negative.strides[0] = -1;
    REQUIRE_CODE(KPX_INVALID, dispatch(negative, one, 1, 4));
    kpx_array unknown = good;
    unknown.dtype = 99;
    REQUIRE_CODE(KPX_INVALID, dispatch(unknown, one, 1, 4));
    kpx_array deep = good;
    deep.rank = KPX_MAX_RANK + 1;
    REQUIRE_CODE(KPX_INVALID, dispatch(deep, one, 1, 4));
    kpx_array aimless = good;
    aimless.access = 0;
    REQUIRE_CODE(KPX_INVALID, dispatch(aimless, one, 1, 4));
    CHECK(stats_of(stream).ops == 1); // and the refused ones have left nothing behind
    CHECK(download(stream, buffer, 1)[0] == 2);
}

TEST(specialization_constants_arrive) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 256);
    upload(stream, buffer, std::vector<uint32_t>(64, 2));
    for (uint32_t factor : {5u, 7u}) {
        Algorithm add = new_algorithm(device, spirv_add_one, 1, {factor}, 4);
        const uint32_t grid[3] = {1, 1, 1}, n = 64;
        const kpx_array array = words_of(buffer, 64, KPX_READ_WRITE);
        REQUIRE_OK(kpx_dispatch(stream.get(), add.get(), &array, 1, grid, &n, 4, &err));
    }
    CHECK(download(stream, buffer, 1)[0] == (2 * 5 + 1) * 7 + 1);
}

TEST(unknown_ops_are_refused) {
    kpx_error err{};
    Device device = open_device();
    Stream stream = new_stream(device);
    CHECK(kpx_op_find("no_such_op") == -1 && kpx_op_find("") == -1 && kpx_op_find(nullptr) == -1);
    REQUIRE_CODE(KPX_INVALID, kpx_op(stream.get(), -1, nullptr, 0, nullptr, 0, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_op(stream.get(), 10000, nullptr, 0, nullptr, 0, &err));
}

// A shader may use the features that the device was opened with, and no others.
TEST(features_are_enabled_if_they_are_asked_for) {
    kpx_error err{};
    kpx_device_options options{};
    kpx_device *opened = nullptr;
    options.features = "atomic_float32,warp_drive";
    REQUIRE_CODE(KPX_INVALID, kpx_device_open(0, &options, &opened, &err));
    options.features = "storage16";
    options.masked = "storage16";
    REQUIRE_CODE(KPX_UNSUPPORTED, kpx_device_open(0, &options, &opened, &err));
    CHECK(strstr(err.message, "storage16") != nullptr);

    const Device plain = open_device();
    kpx_algorithm *refused = nullptr;
    REQUIRE_CODE(KPX_UNSUPPORTED, kpx_algorithm_create(plain.get(), spirv_atomic_sum.data(), spirv_atomic_sum.size(), 1,
                                                       nullptr, 0, 0, 0, &refused, &err));
    CHECK(strstr(err.message, "atomic_float32") != nullptr);
    options = {};
    options.features = "atomic_float32";
    const kpx_result result = kpx_device_open(0, &options, &opened, &err);
    if (result == KPX_UNSUPPORTED) {
        return; // the device has no such atomics
    }
    REQUIRE_OK(result);
    const Device device(opened);
    const Stream stream = new_stream(device);
    const Algorithm sum = new_algorithm(device, spirv_atomic_sum, 1, {}, 0);
    const Storage x = new_storage(device, 64 * 4);
    upload(stream, x, std::vector<uint32_t>(64, 0x3f800000u)); // 1
    const kpx_array array = words_of(x, 64, KPX_READ_WRITE);
    const uint32_t grid[3] = {1, 1, 1};
    REQUIRE_OK(kpx_dispatch(stream.get(), sum.get(), &array, 1, grid, nullptr, 0, &err));
    CHECK(download(stream, x, 1)[0] == 0x42800000u); // 64
}

// A shader may choose among the subgroup sizes that the device has.
TEST(subgroup_sizes_are_those_of_the_device) {
    kpx_error err{};
    const Device device = open_device();
    kpx_device_info info{};
    REQUIRE_OK(kpx_device_describe(0, &info, &err));
    auto create_with = [&](const Device &on, uint32_t size) {
        kpx_algorithm *algorithm = nullptr;
        const kpx_result result = kpx_algorithm_create(on.get(), spirv_add_one.data(), spirv_add_one.size(), 1, nullptr,
                                                       0, 4, size, &algorithm, &err);
        kpx_algorithm_destroy(algorithm);
        return result;
    };
    CHECK(create_with(device, 0) == KPX_OK);
    REQUIRE_CODE(KPX_UNSUPPORTED, create_with(device, 3));
    REQUIRE_CODE(KPX_UNSUPPORTED, create_with(device, UINT32_MAX));
    if (info.max_subgroup_size != 0) {
        CHECK(create_with(device, info.min_subgroup_size) == KPX_OK);
        REQUIRE_CODE(KPX_UNSUPPORTED, create_with(device, 2 * info.max_subgroup_size));
    }
}

// Workgroups within the device's limit may still need more subgroups than a shader that chooses their size may have.
TEST(workgroups_have_no_more_subgroups_than_the_device) {
    kpx_error err{};
    const Device device = open_device();
    const kpx::SubgroupSizes &sizes = kpx::device_of(device.get())->subgroup_sizes();
    const uint32_t most = sizes.min * sizes.per_workgroup;
    if (most == 0 || 2 * most > kpx::device_of(device.get())->limits().maxComputeWorkGroupInvocations) {
        return;
    }
    uint64_t words = 0;
    const uint32_t *code = kpx_kernel_code(device.get(), "arange", &words); // constant 0 is its workgroup's size
    auto create_with = [&](uint32_t threads) {
        kpx_algorithm *algorithm = nullptr;
        const kpx_result result =
            kpx_algorithm_create(device.get(), code, words, 1, &threads, 1, 128, sizes.min, &algorithm, &err);
        kpx_algorithm_destroy(algorithm);
        return result;
    };
    CHECK(create_with(most) == KPX_OK);
    REQUIRE_CODE(KPX_UNSUPPORTED, create_with(2 * most));
    CHECK(strstr(err.message, "subgroups of") != nullptr);
}
