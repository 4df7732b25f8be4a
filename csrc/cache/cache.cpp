#include "cache/cache.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/device.hpp"
#include "runtime/memory.hpp"
#include "stream/order.hpp"

namespace kpx {

namespace {

// Whether the view is of its elements one after the other in row-major order, and how many they are: most views are.
bool is_row_major(const kpx_array &view, uint64_t &size) {
    size = 1;
    for (uint32_t i = view.rank; i-- > 0;) {
        const bool dense = view.shape[i] == 1 || uint64_t(view.strides[i]) == size;
        if (!dense || __builtin_mul_overflow(size, uint64_t(view.shape[i]), &size)) {
            return false;
        }
    }
    return true;
}

} // namespace

bool covers(const kpx_array &view) {
    const uint64_t bytes = tensor_of(view.tensor)->bytes;
    if (view.offset != 0 || view.rank > KPX_MAX_RANK) {
        return bytes == 0;
    }
    const uint64_t size = element_size(view.dtype);
    if (size == 0 || std::any_of(view.shape, view.shape + view.rank, [](int64_t length) { return length <= 0; })) {
        return bytes == 0;
    }
    uint64_t elements = 0;
    if (is_row_major(view, elements)) {
        return elements >= (bytes + size - 1) / size;
    }
    // Dense in any order of axes: each stride is the product of the axes that have smaller ones.
    bool used[KPX_MAX_RANK] = {};
    uint64_t expected = 1;
    for (uint32_t round = 0; round < view.rank; round++) {
        uint32_t found = view.rank;
        for (uint32_t i = view.rank; i-- > 0 && found == view.rank;) {
            if (!used[i] && view.shape[i] > 1 && uint64_t(view.strides[i]) == expected) {
                found = i;
            }
        }
        if (found == view.rank) {
            break;
        }
        used[found] = true;
        if (uint64_t(view.shape[found]) > bytes / expected) { // the view may be unchecked
            return false;
        }
        expected *= uint64_t(view.shape[found]);
    }
    return expected * size >= bytes;
}

namespace {

// Returns whether it released the lock.
bool wait_until_still(Lock &lock, Tensor &tensor) {
    const bool waits = tensor.moving;
    tensor.device->moved().wait(lock, [&] { return !tensor.moving; });
    return waits;
}

// Marks a tensor as moving while its content is copied with the lock released now and then.
class Moving {
  public:
    explicit Moving(Tensor &tensor) : tensor_(tensor) { tensor_.begin_moving(); }
    ~Moving() {
        tensor_.moving = false;
        tensor_.device->moved().notify_all();
    }
    Moving(const Moving &) = delete;
    Moving &operator=(const Moving &) = delete;

  private:
    Tensor &tensor_;
};

// later: it suffices that the memory is there when the capture has ended.
void take_memory(Tensor &tensor, bool later = false) {
    Memory &memory = tensor.device->memory();
    if (!tensor.buffer) {
        tensor.buffer = later ? memory.allocate_later(tensor.bytes) : memory.allocate(tensor.bytes);
        if (tensor.closed) {
            tensor.close_buffer();
        }
    }
    if (!later) {
        memory.place(*tensor.buffer);
    }
}

} // namespace

bool send(Lock &lock, Stream &stream, Tensor &tensor, uint64_t offset, const uint8_t *data, uint64_t bytes) {
    std::optional<Moving> moving; // once the lock is released
    const std::shared_ptr<HostMemory> kept = tensor.host;
    const std::shared_ptr<Buffer> buffer = tensor.buffer;
    bool released = false;
    uint64_t done = 0;
    try {
        while (done < bytes) {
            if (stream.much_is_staged()) {
                if (done > 0) { // the next writer follows these pieces, even if the window of the last one is refused
                    tensor.read_at(stream.point());
                }
                stream.submit_pending();
                released = true;
                if (!moving) {
                    moving.emplace(tensor);
                }
                const Unlocked unlocked(lock);
                stream.throttle();
            }
            const uint64_t part = std::min(bytes - done, Staging::kLarge - 4);
            stream.append_upload(buffer, offset + done, data + done, part, tensor.read_only);
            done += part;
        }
    } catch (...) {
        if (done > 0) {
            tensor.device_fresh = false;
            if (!stream.window_is_empty()) { // what was submitted is among the readers
                stream.note([&](const std::shared_ptr<Point> &window) { tensor.went_up_in_part(window); });
            }
        }
        throw;
    }
    stream.counters().add_upload(bytes);
    tensor.device->count_upload(bytes);
    return released;
}

Access access_of(const kpx_array &array) {
    const bool only_written = array.access == KPX_WRITE;
    return {!only_written || !covers(array), array.access != KPX_READ};
}

bool follow_all(Stream &stream, const Tensor &t, bool writes) {
    if (!follow(stream, t.writer())) {
        return false;
    }
    const auto follows = [&](const std::shared_ptr<Point> &point) { return follow(stream, point); };
    return !writes || (std::all_of(t.readers().begin(), t.readers().end(), follows) &&
                       std::all_of(t.earlier().begin(), t.earlier().end(), follows));
}

bool make_ready(Lock &lock, Stream &stream, const std::shared_ptr<Tensor> &tensor, Access access, bool content_later) {
    Tensor &t = *tensor;
    if (t.device != stream.device()) {
        fail(KPX_INVALID, "a tensor is on another device than the stream");
    }
    if (access.writes && t.read_only) {
        fail(KPX_INVALID, "a tensor over wrapped memory is read-only");
    }
    bool released = false;
    for (bool counted = access.counted;; counted = true) {
        released = wait_until_still(lock, t) || released;
        t.settle();
        if (access.needs && !content_later) {
            t.check_content();
        }
        const bool upload = access.needs && t.host_fresh && !t.device_fresh && t.bytes > 0;
        if (access.needs && !counted) {
            t.device->count_lookup(!upload);
        }
        const bool writes = upload || (access.writes && !content_later);
        if ((!content_later || upload) && !follow_all(stream, t, writes)) {
            continue;
        }
        take_memory(t, content_later && !upload);
        if (upload) {
            released = send(lock, stream, t, 0, t.host->data, t.bytes) || released;
            stream.note([&](const std::shared_ptr<Point> &window) { t.went_up(window); });
        }
        return released;
    }
}

namespace {

// make_ready for an operand that needs no more than memory; false, having done nothing, for others.
bool make_ready_at_once(const Stream &stream, Tensor &tensor, uint32_t access, bool counted) {
    if (tensor.device != stream.device() || stream.capturing()) {
        return false;
    }
    if (access == KPX_READ && tensor.is_readable(stream.timeline())) {
        if (!counted) {
            tensor.device->count_lookup(true);
        }
        return true;
    }
    if (access == KPX_WRITE && tensor.is_new()) {
        take_memory(tensor);
        return true;
    }
    return false;
}

} // namespace

void make_ready(Lock &lock, Stream &stream, const kpx_array *arrays, uint32_t n, bool counted) {
    for (bool released = true; released; counted = true) {
        released = false;
        for (uint32_t i = 0; i < n; i++) {
            if (arrays[i].tensor == nullptr) {
                continue;
            }
            const std::shared_ptr<Tensor> &tensor = tensor_of(arrays[i].tensor);
            if (!make_ready_at_once(stream, *tensor, arrays[i].access, counted)) {
                Access access = access_of(arrays[i]);
                access.counted = counted;
                released = make_ready(lock, stream, tensor, access, stream.capturing()) || released;
            }
        }
    }
}

void note_uses(const kpx_array *arrays, uint32_t n, const std::shared_ptr<Point> &point) {
    for (uint32_t i = 0; i < n; i++) {
        if (arrays[i].tensor == nullptr) {
            continue;
        }
        const std::shared_ptr<Tensor> &tensor = tensor_of(arrays[i].tensor);
        arrays[i].access == KPX_READ ? tensor->read_at(point) : tensor->wrote(point);
    }
}

} // namespace kpx
