// Devices: listing, opening, errors.
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include "shaders.hpp"
#include "test.hpp"

TEST(library_says_what_it_is) {
    CHECK(kpx_abi_version() == KPX_ABI_VERSION);
    CHECK(strlen(kpx_build_id()) == 64);
}

TEST(devices_are_ranked_and_described) {
    kpx_error err{};
    uint32_t count = 0, last_type = 0;
    REQUIRE_OK(kpx_device_count(&count, &err));
    CHECK(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        kpx_device_info info;
        REQUIRE_OK(kpx_device_describe(i, &info, &err));
        CHECK(info.name[0] != 0 && info.driver[0] != 0 && strlen(info.uuid) == 32);
        CHECK(info.type >= last_type);
        last_type = info.type;
        CHECK(info.usable == (info.reason[0] == 0));
        if (info.usable) {
            CHECK(info.memory_total > 0 && info.memory_available <= info.memory_total);
            CHECK(info.max_buffer_bytes >= (uint64_t(1) << 27) && info.max_buffer_bytes < (uint64_t(1) << 32));
        }
    }
    kpx_device_info info;
    REQUIRE_CODE(KPX_INVALID, kpx_device_describe(count, &info, &err));
    const std::string number = std::to_string(count);
    CHECK(err.message == "no Vulkan device " + number + ": there are " + number);
    kpx_device *device = nullptr;
    REQUIRE_CODE(KPX_INVALID, kpx_device_open(count, nullptr, &device, &err));
    CHECK(device == nullptr);
}

TEST(device_lives_until_its_last_child_goes) {
    Device device = open_device();
    Stream stream = new_stream(device);
    Storage buffer = new_storage(device, 4096);
    device.reset();
    upload(stream, buffer, {1, 2, 3});
    CHECK((download(stream, buffer, 3) == std::vector<uint32_t>{1, 2, 3}));
}

TEST(two_devices_do_not_mix) {
    kpx_error err{};
    Device one = open_device(), two = open_device();
    Stream stream = new_stream(one), other = new_stream(two);
    Storage foreign = new_storage(two, 64);
    kpx_read *made = nullptr;
    const kpx_array view = words_of(foreign, 1, KPX_WRITE);
    REQUIRE_CODE(KPX_INVALID, kpx_tensor_write(&view, stream.get(), nullptr, 0, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_upload(stream.get(), foreign.get(), &err));
    REQUIRE_CODE(KPX_INVALID, kpx_read_create(foreign.get(), stream.get(), KPX_READ_SOON, 0, 4, &made, &err));
    upload(other, foreign, {5});
    const uint64_t value = flush(other);
    REQUIRE_CODE(KPX_INVALID, kpx_stream_depend(stream.get(), other.get(), value, &err));
    CHECK(download(other, foreign, 1)[0] == 5);
}

TEST(null_handles_are_refused) {
    kpx_error err{};
    uint64_t value = 0;
    Device device = open_device();
    Stream stream = new_stream(device);
    REQUIRE_CODE(KPX_INVALID, kpx_flush(nullptr, UINT64_MAX, &value, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_wait(nullptr, 0, 0, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_upload(stream.get(), nullptr, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_stream_depend(stream.get(), nullptr, 0, &err));
    kpx_tensor *buffer = nullptr;
    REQUIRE_CODE(KPX_INVALID, kpx_tensor_create(nullptr, 4, &buffer, &err));
    kpx_device_close(nullptr);
    kpx_tensor_destroy(nullptr);
    kpx_stream_destroy(nullptr);
    kpx_algorithm_destroy(nullptr);
    CHECK(kpx_read_moved(nullptr) == 0);
}

TEST(arguments_that_are_not_there_are_refused) {
    kpx_error err{};
    uint64_t words = 1;
    Device device = open_device();
    Stream stream = new_stream(device);
    const Storage buffer = new_storage(device, 256);
    const Algorithm algorithm = new_algorithm(device, spirv_add_one, 1, {}, 4);
    const kpx_array array = words_of(buffer, 64, KPX_READ_WRITE);
    const uint32_t groups[3] = {1, 1, 1}, n = 64;
    const int32_t copy = kpx_op_find("copy");
    REQUIRE_CODE(KPX_INVALID, kpx_op(stream.get(), copy, nullptr, 2, &n, 4, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_dispatch(stream.get(), algorithm.get(), nullptr, 1, groups, &n, 4, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_dispatch(stream.get(), algorithm.get(), &array, 1, nullptr, &n, 4, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_algorithm_check(algorithm.get(), nullptr, 1, groups, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_algorithm_check(algorithm.get(), &array, 1, nullptr, &err));
    REQUIRE_CODE(KPX_INVALID, kpx_tensor_write(nullptr, stream.get(), nullptr, 0, &err));
    CHECK(kpx_kernel_code(device.get(), nullptr, &words) == nullptr && words == 0);
    CHECK(stats_of(stream).ops == 0);
}

#if defined(__GLIBC__)
namespace {

uint64_t resident_bytes() {
    uint64_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident * uint64_t(sysconf(_SC_PAGESIZE));
}

} // namespace

// What was freed before a device is closed does not stay in the process.
TEST(closing_a_device_gives_memory_back) {
    if (dlsym(RTLD_DEFAULT, "__asan_init") != nullptr) {
        throw Skipped{"the address sanitizer brings an allocator of its own"};
    }
    Device device = open_device();
    std::vector<std::unique_ptr<char[]>> blocks(1024);
    for (auto &block : blocks) {
        block = std::make_unique<char[]>(1 << 16); // too small for a mapping of its own
        memset(block.get(), 1, 1 << 16);
    }
    const std::unique_ptr<char[]> last = std::move(blocks.back()); // the heap cannot just end earlier
    blocks.clear();
    const uint64_t before = resident_bytes();
    device.reset();
    CHECK(resident_bytes() + (1 << 25) < before);
}
#endif
