// The C ABI of the library, its devices and their algorithms.
#include "abi/kpx.h"

#include <algorithm>
#include <iterator>

#include "abi/guard.hpp"
#include "abi/handles.hpp"
#include "build_id.h"
#include "record/lowering.hpp"
#include "runtime/algorithm.hpp"
#include "runtime/device_list.hpp"
#include "runtime/kernels.hpp"
#include "stream/stream.hpp"

using namespace kpx;

extern "C" {

uint32_t kpx_abi_version(void) {
    return KPX_ABI_VERSION;
}

const char *kpx_build_id(void) {
    return KPX_BUILD_ID;
}

kpx_result kpx_device_count(uint32_t *count, kpx_error *err) {
    return guarded(err, [&] { *count = uint32_t(list_devices().size()); });
}

kpx_result kpx_device_describe(uint32_t index, kpx_device_info *info, kpx_error *err) {
    return guarded(err, [&] {
        const std::vector<ListedDevice> list = list_devices();
        if (index >= list.size()) {
            fail(KPX_INVALID, "no Vulkan device {}: there are {}", index, list.size());
        }
        *info = list[index].info;
    });
}

kpx_result kpx_device_open(uint32_t index, const kpx_device_options *options, kpx_device **out, kpx_error *err) {
    const kpx_device_options defaults{};
    return guarded(err, [&] { *out = new kpx_device{Device::open(index, options == nullptr ? defaults : *options)}; });
}

void kpx_device_close(kpx_device *device) {
    if (device != nullptr) {
        (void)guarded(nullptr, [&] { device->object->settle(); });
        delete device;
    }
}

void kpx_device_get_stats(kpx_device *device, kpx_device_stats *out) {
    *out = kpx_device_stats{};
    (void)guarded(nullptr, [&] {
        const auto &of = device_of(device);
        *out = of->stats();
        out->invariant_rows = invariant_rows(*of);
    });
}

const char *kpx_device_hang(kpx_device *device) {
    return device == nullptr ? "" : device->object->hang();
}

uint64_t kpx_list_variants(kpx_device *device, kpx_variant *out, uint64_t n) {
    std::vector<kpx_variant> all;
    (void)guarded(nullptr, [&] {
        if (device != nullptr) {
            all = device_of(device)->kernels().list();
        } else {
            std::transform(embedded_kernels, embedded_kernels + embedded_kernel_count, std::back_inserter(all),
                           describe);
        }
        std::copy_n(all.begin(), std::min<uint64_t>(n, all.size()), out);
    });
    return all.size();
}

const uint32_t *kpx_kernel_code(kpx_device *device, const char *kernel, uint64_t *words) {
    const Variant *best = nullptr;
    (void)guarded(nullptr, [&] { best = device_of(device)->kernels().best(kernel == nullptr ? "" : kernel); });
    *words = best == nullptr ? 0 : best->code->bytes() / sizeof(uint32_t);
    return best == nullptr ? nullptr : best->code->spirv;
}

kpx_result kpx_algorithm_create(kpx_device *device, const uint32_t *spirv, uint64_t words, uint32_t bindings,
                                const uint32_t *spec, uint32_t n_spec, uint32_t push_bytes, uint32_t subgroup_size,
                                kpx_algorithm **out, kpx_error *err) {
    return guarded(err, [&] {
        *out = new kpx_algorithm{std::make_shared<Algorithm>(device_of(device), spirv, words, bindings, spec, n_spec,
                                                             push_bytes, subgroup_size)};
    });
}

uint64_t kpx_algorithm_writes(const kpx_algorithm *algorithm) {
    return algorithm == nullptr ? 0 : algorithm->object->writes();
}

kpx_result kpx_algorithm_check(const kpx_algorithm *algorithm, const kpx_array *arrays, uint32_t n,
                               const uint32_t groups[3], kpx_error *err) {
    return guarded(err, [&] {
        require(arrays, "arrays are");
        require(groups, "number of workgroups is");
        check_dispatch(*algorithm_of(algorithm), arrays, n, {groups[0], groups[1], groups[2]});
    });
}

void kpx_algorithm_destroy(kpx_algorithm *algorithm) {
    delete algorithm;
}

} // extern "C"
