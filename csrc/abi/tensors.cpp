// The C ABI of tensors and reads.
#include "abi/kpx.h"

#include "abi/guard.hpp"
#include "abi/handles.hpp"
#include "cache/cache.hpp"
#include "cache/read.hpp"
#include "cache/write.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "runtime/prefetch.hpp"

struct kpx_read {
    std::unique_ptr<kpx::Read> object;
};

using namespace kpx;

extern "C" {

kpx_result kpx_tensor_create(kpx_device *device, uint64_t bytes, kpx_tensor **out, kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Device> &owner = device_of(device);
        owner->check_alive();
        owner->memory().check_size(bytes);
        *out = handle_of(Tensor::create(owner, bytes));
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
        std::shared_ptr<HostMemory> host = HostPool::wrap(memory, bytes);
        std::shared_ptr<Tensor> tensor = Tensor::create(owner, bytes); // last: it counts as live
        tensor->read_only = true;
        tensor->host = std::move(host);
        tensor->host_fresh = true;
        *out = handle_of(std::move(tensor));
    });
}

kpx_result kpx_tensor_create_mapped(kpx_device *device, uint64_t bytes, kpx_tensor **out, void **memory,
                                    kpx_error *err) {
    return guarded(err, [&] {
        const std::shared_ptr<Device> &owner = device_of(device);
        owner->check_alive();
        std::shared_ptr<Buffer> buffer = owner->memory().allocate_mapped(bytes);
        std::shared_ptr<Tensor> tensor = Tensor::create(owner, bytes);
        tensor->mapped = true;
        tensor->device_fresh = true;
        *memory = buffer->mapped();
        tensor->buffer = std::move(buffer);
        *out = handle_of(std::move(tensor));
    });
}

void kpx_tensor_destroy(kpx_tensor *tensor) {
    kpx_tensors_destroy(&tensor, 1);
}

void kpx_tensors_destroy(kpx_tensor *const *tensors, uint64_t n) {
    constexpr uint64_t kAhead = 8;
    Lock lock;
    for (uint64_t i = 0; i < n; i++) {
        if (i + kAhead < n) {
            prefetch(tensors[i + kAhead], sizeof(Tensor));
        }
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
        if (tensors[i] != nullptr) {
            const std::shared_ptr<Tensor> last = std::move(tensors[i]->object); // the handle goes with it
        }
    }
}

kpx_result kpx_tensor_write(const kpx_array *view, kpx_stream *stream, const void *data, uint64_t bytes,
                            kpx_error *err) {
    return guarded(err, [&] {
        require(view, "view is");
        write_tensor(*stream_of(stream), *view, data, bytes);
    });
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
    return read != nullptr && read->object->moved();
}

void kpx_read_destroy(kpx_read *read) {
    delete read;
}

} // extern "C"
