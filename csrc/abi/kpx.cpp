// The C ABI: every body inside the guard, every handle checked.
#include "abi/kpx.h"

#include <algorithm>
#include <iterator>

#include "abi/guard.hpp"
#include "abi/handles.hpp"
#include "build_id.h"
#include "cache/cache.hpp"
#include "cache/read.hpp"
#include "ops/op_table.hpp"
#include "record/lowering.hpp"
#include "record/region.hpp"
#include "runtime/algorithm.hpp"
#include "runtime/device_list.hpp"
#include "runtime/kernels.hpp"
#include "stream/stream.hpp"

namespace kpx {

namespace {

template <typename Handle> auto &object_of(Handle *handle, const char *what) {
    if (handle == nullptr || !handle->object) {
        fail(KPX_INVALID, "no {} was given", what);
    }
    return handle->object;
}

// Tells the caller in the end, also of a call that fails, how many variants the driver has refused.
class NoteRefusals {
  public:
    NoteRefusals(const Stream &stream, kpx_error *err) : kernels_(stream.device()->kernels()), err_(err) {}
    ~NoteRefusals() {
        if (err_ != nullptr) {
            err_->refusals = uint32_t(kernels_.refusals());
        }
    }
    NoteRefusals(const NoteRefusals &) = delete;
    NoteRefusals &operator=(const NoteRefusals &) = delete;

  private:
    const Kernels &kernels_;
    kpx_error *err_;
};

} // namespace

const std::shared_ptr<Tensor> &tensor_of(const kpx_tensor *handle) {
    return object_of(handle, "tensor");
}
const std::shared_ptr<Device> &device_of(const kpx_device *handle) {
    return object_of(handle, "device");
}
const std::shared_ptr<Stream> &stream_of(const kpx_stream *handle) {
    return object_of(handle, "stream");
}
const std::shared_ptr<Algorithm> &algorithm_of(const kpx_algorithm *handle) {
    return object_of(handle, "algorithm");
}
const std::shared_ptr<Region> &region_of(const kpx_region *handle) {
    return object_of(handle, "region");
}

} // namespace kpx

struct kpx_read {
    std::unique_ptr<kpx::Read> object;
};

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
    (void)guarded(nullptr, [&] { *out = device_of(device)->stats(); });
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
    (void)guarded(nullptr, [&] { best = device_of(device)->kernels().best(kernel); });
    *words = best == nullptr ? 0 : best->code->bytes / sizeof(uint32_t);
    return best == nullptr ? nullptr : best->code->spirv;
}

kpx_result kpx_tensor_create(kpx_device *device, uint64_t bytes, kpx_tensor **out, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Device> &owner = device_of(device);
        owner->check_alive();
        owner->memory().check_size(bytes);
        *out = new kpx_tensor{std::make_shared<Tensor>(owner, bytes)};
    });
}

kpx_result kpx_tensor_wrap(kpx_device *device, const void *memory, uint64_t bytes, kpx_tensor **out, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Device> &owner = device_of(device);
        owner->check_alive();
        owner->memory().check_size(bytes);
        if (memory == nullptr && bytes > 0) {
            fail(KPX_INVALID, "no memory was given to wrap");
        }
        auto tensor = std::make_shared<Tensor>(owner, bytes);
        tensor->read_only = true;
        tensor->host = HostPool::wrap(memory, bytes);
        tensor->host_fresh = true;
        *out = new kpx_tensor{std::move(tensor)};
    });
}

kpx_result kpx_tensor_create_mapped(kpx_device *device, uint64_t bytes, kpx_tensor **out, void **memory,
                                    kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Device> &owner = device_of(device);
        owner->check_alive();
        std::shared_ptr<Buffer> buffer = owner->memory().allocate_mapped(bytes);
        auto tensor = std::make_shared<Tensor>(owner, bytes);
        tensor->mapped = true;
        tensor->device_fresh = true;
        *memory = buffer->mapped();
        tensor->buffer = std::move(buffer);
        *out = new kpx_tensor{std::move(tensor)};
    });
}

void kpx_tensor_destroy(kpx_tensor *tensor) {
    kpx_tensors_destroy(&tensor, 1);
}

void kpx_tensors_destroy(kpx_tensor *const *tensors, uint64_t n) {
    Lock lock;
    for (uint64_t i = 0; i < n; i++) {
        if (tensors[i] == nullptr) {
            continue;
        }
        const std::shared_ptr<Tensor> &object = tensors[i]->object;
        if (lock.mutex() != &object->device->mutex()) {
            lock = Lock(); // never two at once
            lock = Lock(object->device->mutex());
        }
        // Copies from the caller's memory must be complete.
        object->device->moved().wait(lock, [&] { return !(object->read_only && object->moving); });
        object->close();
    }
    lock = Lock();
    for (uint64_t i = 0; i < n; i++) {
        delete tensors[i];
    }
}

kpx_result kpx_tensor_write(const kpx_array *view, kpx_stream *stream, const void *data, kpx_error *err) {
    return guarded(err, [&] { write_tensor(*stream_of(stream), *view, data); });
}

kpx_result kpx_read_create(kpx_tensor *tensor, kpx_stream *stream, kpx_read_when when, uint64_t offset, uint64_t bytes,
                           kpx_read **out, kpx_error *err) {
    return guarded(
        err, [&] { *out = new kpx_read{Read::start(tensor_of(tensor), stream_of(stream), when, offset, bytes)}; });
}

kpx_result kpx_read_wait(kpx_read *read, uint64_t timeout_ns, const void **data, kpx_error *err) {
    return guarded(err, [&] { *data = object_of(read, "read")->wait(timeout_ns); });
}

uint32_t kpx_read_moved(const kpx_read *read) {
    return read->object->moved();
}

void kpx_read_destroy(kpx_read *read) {
    delete read;
}

kpx_result kpx_stream_create(kpx_device *device, kpx_stream_kind kind, kpx_stream **out, kpx_error *err) {
    return guarded(err, [&] { *out = new kpx_stream{Stream::create(device_of(device), kind)}; });
}

void kpx_stream_destroy(kpx_stream *stream) {
    if (stream != nullptr) {
        stream->object->finish();
        delete stream;
    }
}

int32_t kpx_op_find(const char *name) {
    return find_op(name);
}

kpx_result kpx_op(kpx_stream *stream, int32_t op, const kpx_array *arrays, uint32_t n, const void *params,
                  uint32_t size, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const NoteRefusals note(*target, err);
        target->op(op, arrays, n, params, size);
    });
}

kpx_result kpx_upload(kpx_stream *stream, kpx_tensor *tensor, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        target->device()->check_alive();
        Lock lock(target->device()->mutex());
        target->report_refused();
        make_ready(lock, *target, tensor_of(tensor), {true, false}, target->capturing());
    });
}

kpx_result kpx_stream_depend(kpx_stream *stream, kpx_stream *other, uint64_t value, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const std::shared_ptr<Stream> source = stream_of(other);
        target->depend(*source, value);
    });
}

kpx_result kpx_stream_hold(kpx_stream *stream, kpx_gate **out, kpx_error *err) {
    return guarded(err, [&] { *out = new kpx_gate{stream_of(stream)->hold()}; });
}

void kpx_gate_open(kpx_gate *gate) {
    if (gate != nullptr) {
        (void)guarded(nullptr, [&] { gate->object->open(); });
        delete gate;
    }
}

kpx_result kpx_flush(kpx_stream *stream, uint64_t timeout_ns, uint64_t *value, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        *value = target->flush(timeout_ns);
    });
}

kpx_result kpx_wait_for_room(kpx_stream *stream, uint64_t timeout_ns, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream); // outlives a concurrent destroy
        target->throttle(timeout_ns);
    });
}

kpx_result kpx_wait(kpx_stream *stream, uint64_t value, uint64_t timeout_ns, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream); // outlives a concurrent destroy
        target->wait(value, timeout_ns);
    });
}

void kpx_stream_get_stats(kpx_stream *stream, kpx_stream_stats *out) {
    *out = kpx_stream_stats{};
    (void)guarded(nullptr, [&] { *out = stream_of(stream)->stats(); });
}

uint64_t kpx_clock_ns(void) {
    return kpx::host_clock_ns();
}

kpx_result kpx_stream_time_ops(kpx_stream *stream, kpx_timing timing, kpx_error *err) {
    return guarded(err, [&] { stream_of(stream)->time_ops(timing); });
}

uint64_t kpx_stream_take_spans(kpx_stream *stream, kpx_op_span *out, uint64_t n) {
    uint64_t taken = 0;
    (void)guarded(nullptr, [&] { taken = stream_of(stream)->take_spans(out, n); });
    return taken;
}

uint64_t kpx_stream_get_op_times(kpx_stream *stream, kpx_op_time *out, uint64_t n) {
    uint64_t known = 0;
    (void)guarded(nullptr, [&] {
        const std::vector<kpx_op_time> all = stream_of(stream)->op_times();
        known = all.size();
        std::copy_n(all.begin(), std::min<uint64_t>(n, known), out);
    });
    return known;
}

kpx_result kpx_capture_begin(kpx_stream *stream, kpx_error *err) {
    return guarded(err, [&] { stream_of(stream)->begin_capture(); });
}

kpx_result kpx_capture_end(kpx_stream *stream, kpx_region **out, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const NoteRefusals note(*target, err);
        *out = new kpx_region{target->end_capture()};
    });
}

void kpx_capture_abort(kpx_stream *stream) {
    (void)guarded(nullptr, [&] { stream_of(stream)->abort_capture(); });
}

kpx_result kpx_replay(kpx_stream *stream, kpx_region *region, uint32_t times, uint64_t timeout_ns, uint64_t *value,
                      kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const std::shared_ptr<Region> replayed = region_of(region);
        *value = target->replay(replayed, times, timeout_ns);
    });
}

void kpx_region_get_stats(kpx_region *region, kpx_region_stats *out) {
    *out = kpx_region_stats{};
    (void)guarded(nullptr, [&] { *out = region_of(region)->stats(); });
}

uint64_t kpx_region_describe(kpx_region *region, char *text, uint64_t size) {
    uint64_t length = 0;
    (void)guarded(nullptr, [&] {
        const std::string description = region_of(region)->describe();
        length = description.size();
        if (size > 0) {
            memcpy(text, description.data(), std::min<uint64_t>(size, length));
        }
    });
    return length;
}

kpx_result kpx_profile_start(kpx_stream *stream, kpx_region *region, kpx_profiled what, uint64_t *value,
                             kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        const std::shared_ptr<Region> profiled = region_of(region);
        const auto timed = what == KPX_PROFILE_EACH ? Recording::Timed::each : Recording::Timed::whole;
        *value = target->profile(profiled, timed);
    });
}

kpx_result kpx_profile_times(kpx_region *region, kpx_span *spans, uint64_t n, kpx_span *whole, kpx_error *err) {
    return guarded(err, [&] { *whole = region_of(region)->times(spans, n); });
}

void kpx_region_destroy(kpx_region *region) {
    delete region;
}

kpx_result kpx_algorithm_create(kpx_device *device, const uint32_t *spirv, uint64_t words, uint32_t bindings,
                                const uint32_t *spec, uint32_t n_spec, uint32_t push_bytes, kpx_algorithm **out,
                                kpx_error *err) {
    return guarded(err, [&] {
        *out = new kpx_algorithm{
            std::make_shared<Algorithm>(device_of(device), spirv, words, bindings, spec, n_spec, push_bytes)};
    });
}

void kpx_algorithm_destroy(kpx_algorithm *algorithm) {
    delete algorithm;
}

kpx_result kpx_dispatch(kpx_stream *stream, kpx_algorithm *algorithm, const kpx_array *arrays, uint32_t n,
                        const uint32_t groups[3], const void *push, uint32_t push_bytes, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Stream> target = stream_of(stream);
        target->dispatch(algorithm_of(algorithm), arrays, n, {groups[0], groups[1], groups[2]}, push, push_bytes);
    });
}

} // extern "C"
