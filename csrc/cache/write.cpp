#include "cache/write.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "abi/guard.hpp"
#include "cache/cache.hpp"
#include "record/lowering.hpp"
#include "runtime/device.hpp"

namespace kpx {

namespace {

// How many of the view's outermost axes are not part of a contiguous run of `dense` elements.
uint32_t outer_axes(const kpx_array &view, int64_t &dense) {
    dense = 1;
    uint32_t outer = view.rank;
    while (outer > 0 && (view.shape[outer - 1] == 1 || view.strides[outer - 1] == dense)) {
        dense *= view.shape[--outer];
    }
    return outer;
}

// The number of contiguous runs, or the largest number if that overflows.
uint64_t runs_of(const kpx_array &view) {
    int64_t dense;
    uint64_t runs = 1;
    for (uint32_t axis = outer_axes(view, dense); axis-- > 0;) {
        if (__builtin_mul_overflow(runs, uint64_t(view.shape[axis]), &runs)) {
            return UINT64_MAX;
        }
    }
    return runs;
}

// How many bytes the view's elements have, or the largest number if that overflows.
uint64_t bytes_of(const kpx_array &view, uint64_t size) {
    uint64_t bytes = size;
    if (std::any_of(view.shape, view.shape + view.rank, [](int64_t length) { return length == 0; })) {
        return 0;
    }
    for (uint32_t axis = 0; axis < view.rank; axis++) {
        if (__builtin_mul_overflow(bytes, uint64_t(view.shape[axis]), &bytes)) {
            return UINT64_MAX;
        }
    }
    return bytes;
}

// Calls each(offset, bytes) for every contiguous run of bytes, in row-major order.
void each_run(const kpx_array &view, uint64_t size, const std::function<void(uint64_t, uint64_t)> &each) {
    int64_t dense;
    const uint32_t outer = outer_axes(view, dense);
    int64_t index[KPX_MAX_RANK] = {};
    int64_t at = view.offset;
    for (;;) {
        each(uint64_t(at) * size, uint64_t(dense) * size);
        uint32_t axis = outer;
        while (axis > 0) {
            axis--;
            at += view.strides[axis];
            if (++index[axis] < view.shape[axis]) {
                break;
            }
            at -= index[axis] * view.strides[axis];
            index[axis] = 0;
            if (axis == 0) {
                return;
            }
        }
        if (outer == 0) {
            return;
        }
    }
}

void put(uint8_t *to, const kpx_array &view, uint64_t size, const void *data) {
    const auto *from = static_cast<const uint8_t *>(data);
    each_run(view, size, [&](uint64_t offset, uint64_t bytes) {
        if (from == nullptr) {
            memset(to + offset, 0, bytes);
        } else {
            memcpy(to + offset, from, bytes);
            from += bytes;
        }
    });
}

// Replaces all of the content. Copies without holding the lock.
void replace_content(Stream &stream, Tensor &t, const kpx_array &view, uint64_t size, const void *data) {
    HostPool &pool = t.device->host_memory();
    std::shared_ptr<HostMemory> fresh = data == nullptr ? pool.zeroed(t.bytes) : pool.take(t.bytes);
    if (data != nullptr) {
        put(fresh->data, view, size, data);
    }
    Lock lock(t.device->mutex());
    stream.report_refused();
    t.device->moved().wait(lock, [&] { return !t.moving; });
    t.host_wrote(std::move(fresh));
}

// The host's copy is up to date: it changes, and the device's copy is stale from then on. Reads that share the old
// bytes keep them.
void change_host(Tensor &t, const kpx_array &view, uint64_t size, const void *data) {
    if (t.host.use_count() > 1) {
        std::shared_ptr<HostMemory> copy = t.device->host_memory().take(t.bytes);
        memcpy(copy->data, t.host->data, t.bytes);
        t.host = std::move(copy);
    }
    put(t.host->data, view, size, data);
    t.host_changed();
}

// Some of the content may have changed. Without the host memory to record that, the device is lost.
void lose(Stream &stream, Tensor &tensor, const Error &error) {
    try {
        tensor.lost(stream.last_point(), error);
    } catch (const std::bad_alloc &) {
        tensor.device->mark_lost();
    }
}

// Only the device's copy is up to date: pieces of it are uploaded. A mapped tensor may be replaced as a whole, and then
// an error that it carries does not matter.
void change_device(Lock &lock, Stream &stream, const std::shared_ptr<Tensor> &tensor, const kpx_array &view,
                   uint64_t size, const void *data) {
    constexpr size_t kMostPieces = 64;
    const uint64_t many = runs_of(view);
    if (many > kMostPieces && !tensor->mapped) {
        fail(KPX_STALE, "the content is on the device, and {} pieces of it would change", many);
    }
    std::vector<std::pair<uint64_t, uint64_t>> pieces;
    pieces.reserve(many);
    each_run(view, size, [&](uint64_t offset, uint64_t bytes) { pieces.emplace_back(offset, bytes); });
    uint64_t all = 0;
    for (const auto &piece : pieces) {
        all += piece.second;
    }
    std::vector<uint8_t> zeros(data == nullptr ? all : 0);
    const uint8_t *from = data == nullptr ? zeros.data() : static_cast<const uint8_t *>(data);
    make_ready(lock, stream, tensor, {!covers(view), true});
    const bool fresh = tensor->device_fresh;
    const uint64_t before = stream.timeline()->submitted();
    bool changed = false;
    try {
        for (const auto &[offset, bytes] : pieces) {
            send(lock, stream, *tensor, offset, from, bytes);
            changed = true;
            // The next writer follows each piece, as in send().
            stream.note([&](const std::shared_ptr<Point> &window) { tensor->read_at(window); });
            from += bytes;
        }
        if (stream.for_transfers()) {
            // Nobody else could be told that the driver refuses them.
            stream.submit_pending();
            tensor->wrote(stream.submitted_point());
        } else {
            stream.note([&](const std::shared_ptr<Point> &window) { tensor->wrote(window); });
            stream.expect_no_repeat();
        }
    } catch (...) {
        if (stream.timeline()->submitted() == before && stream.window_is_empty()) {
            tensor->device_fresh = fresh;              // nothing of it will run
        } else if (changed || !tensor->device_fresh) { // or a part of the first piece
            lose(stream, *tensor, current_error());
        }
        throw;
    }
}

} // namespace

void write_tensor(Stream &stream, const kpx_array &view, const void *data, uint64_t bytes) {
    const std::shared_ptr<Tensor> tensor = tensor_of(view.tensor);
    Tensor &t = *tensor;
    t.device->check_alive();
    if (t.device != stream.device()) {
        fail(KPX_INVALID, "the tensor is on another device than the stream");
    }
    if (t.read_only) {
        fail(KPX_INVALID, "a tensor over wrapped memory is read-only");
    }
    const uint64_t size = check_view(view);
    const uint64_t needed = bytes_of(view, size);
    if (data != nullptr && bytes != needed) {
        fail(KPX_INVALID, "{} bytes were given for a view of {}", bytes, needed);
    }
    if (needed == 0) {
        return;
    }
    if (covers(view) && !t.mapped) {
        replace_content(stream, t, view, size, data);
        return;
    }
    Lock lock(t.device->mutex());
    stream.report_refused();
    t.device->moved().wait(lock, [&] { return !t.moving; });
    t.settle();
    if (!t.host_fresh && !t.device_fresh) {
        t.host_wrote(t.device->host_memory().zeroed(t.bytes)); // the rest is undefined
    }
    if (t.host_fresh) {
        change_host(t, view, size, data);
    } else {
        change_device(lock, stream, tensor, view, size, data);
    }
}

} // namespace kpx
