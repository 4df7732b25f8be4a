#include "cache/cache.hpp"

#include <algorithm>
#include <cstring>

#include "runtime/device.hpp"
#include "runtime/memory.hpp"

namespace kpx {

namespace {

uint64_t size_of(uint32_t dtype) {
    Array array;
    array.dtype = dtype;
    return array.element_size();
}

} // namespace

bool covers(const kpx_array &view) {
    const uint64_t bytes = tensor_of(view.tensor)->bytes;
    if (view.offset != 0 || view.rank > KPX_MAX_RANK) {
        return bytes == 0;
    }
    // Dense in any order of axes: each stride is the product of the axes that have smaller ones.
    bool used[KPX_MAX_RANK] = {};
    int64_t expected = 1;
    for (uint32_t round = 0; round < view.rank; round++) {
        uint32_t found = view.rank;
        for (uint32_t i = view.rank; i-- > 0 && found == view.rank;) {
            if (!used[i] && view.shape[i] > 1 && view.strides[i] == expected) {
                found = i;
            }
        }
        if (found == view.rank) {
            break;
        }
        used[found] = true;
        expected *= view.shape[found];
    }
    return uint64_t(expected) * size_of(view.dtype) >= bytes;
}

namespace {

void wait_until_still(Lock &lock, Tensor &tensor) {
    tensor.device->moved().wait(lock, [&] { return !tensor.moving; });
}

// Keeps others from a tensor while its content is copied, with the lock released at times.
class Moving {
  public:
    explicit Moving(Tensor &tensor) : tensor_(tensor) { tensor_.moving = true; }
    ~Moving() {
        tensor_.moving = false;
        tensor_.device->moved().notify_all();
    }
    Moving(const Moving &) = delete;
    Moving &operator=(const Moving &) = delete;

  private:
    Tensor &tensor_;
};

// Releases the lock in a scope.
class Unlocked {
  public:
    explicit Unlocked(Lock &lock) : lock_(lock) { lock_.unlock(); }
    ~Unlocked() { lock_.lock(); }
    Unlocked(const Unlocked &) = delete;
    Unlocked &operator=(const Unlocked &) = delete;

  private:
    Lock &lock_;
};

void take_memory(Tensor &tensor) {
    if (!tensor.buffer) {
        tensor.buffer = tensor.device->memory().allocate(std::max<uint64_t>(tensor.bytes, 4));
        if (tensor.closed) {
            tensor.buffer->close();
        }
    }
}

} // namespace

void send(Lock &lock, Stream &stream, Tensor &tensor, uint64_t offset, const uint8_t *data, uint64_t bytes) {
    const Moving moving(tensor);
    const std::shared_ptr<HostMemory> kept = tensor.host;
    const std::shared_ptr<Buffer> buffer = tensor.buffer;
    for (uint64_t done = 0; done < bytes;) {
        if (stream.much_is_staged()) {
            stream.submit_pending();
            const Unlocked unlocked(lock);
            stream.throttle();
        }
        const uint64_t part = std::min(bytes - done, Staging::kLarge - 4);
        stream.append_upload(buffer, offset + done, data + done, part);
        done += part;
    }
    stream.count_upload(bytes);
    tensor.device->count_upload(bytes);
}

Access access_of(const kpx_array &array) {
    const bool only_written = array.access == KPX_WRITE;
    return {!only_written || !covers(array), array.access != KPX_READ};
}

void make_ready(Lock &lock, Stream &stream, const std::shared_ptr<Tensor> &tensor, Access access, bool content_later) {
    Tensor &t = *tensor;
    if (t.device != stream.device()) {
        fail(KPX_INVALID, "a tensor lives on another device than the stream");
    }
    if (access.writes && t.read_only) {
        fail(KPX_INVALID, "a tensor of wrapped memory is read-only");
    }
    for (bool counted = false;; counted = true) {
        wait_until_still(lock, t);
        t.settle();
        if (access.needs && !content_later) {
            t.check_content();
        }
        const bool upload = access.needs && t.host_fresh && !t.device_fresh && t.bytes > 0;
        if (access.needs && !counted) {
            t.device->count_lookup(!upload);
        }
        const bool writes = upload || (access.writes && !content_later);
        bool followed = true;
        if (!content_later || upload) {
            followed = stream.follow(t.writer());
            for (size_t i = 0; writes && followed && i < t.readers().size(); i++) {
                followed = stream.follow(t.readers()[i]);
            }
        }
        if (!followed) {
            continue;
        }
        take_memory(t);
        if (upload) {
            send(lock, stream, t, 0, t.host->data, t.bytes);
            t.went_up(stream.point());
        }
        return;
    }
}

void make_ready(Lock &lock, Stream &stream, const kpx_array *arrays, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (arrays[i].tensor != nullptr) {
            make_ready(lock, stream, tensor_of(arrays[i].tensor), access_of(arrays[i]), stream.capturing());
        }
    }
}

} // namespace kpx
