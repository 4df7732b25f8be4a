// A stream appends ops, dispatches and transfers to its window.
#include "cache/cache.hpp"
#include "ops/op_table.hpp"
#include "record/capture.hpp"
#include "record/lowering.hpp"
#include "runtime/algorithm.hpp"
#include "runtime/device.hpp"
#include "runtime/prefetch.hpp"
#include "stream/stream.hpp"

namespace kpx {

namespace {

// A checked call with its arrays. An access that was not given counts as both.
void fill_node(OpNode &node, int32_t op, Device &device, const kpx_array *arrays, uint32_t n) {
    node.op = op;
    for (uint32_t i = 0; i < n; i++) {
        node.arrays.push_back(make_array(device, arrays[i]));
        const bool given = arrays[i].access >= KPX_READ && arrays[i].access <= KPX_READ_WRITE;
        node.access.push_back(given ? kpx_access(arrays[i].access) : KPX_READ_WRITE);
    }
}

} // namespace

// Records how an op appended to the window uses its tensors.
void Stream::note_uses(const kpx_array *arrays, uint32_t n) {
    const std::shared_ptr<Point> &at = point();
    for (uint32_t i = 0; i < n; i++) {
        if (arrays[i].tensor == nullptr) {
            continue;
        }
        const std::shared_ptr<Tensor> &tensor = tensor_of(arrays[i].tensor);
        if (arrays[i].access != KPX_READ) {
            tensor->wrote(at);
        } else {
            tensor->read_at(at);
        }
    }
}

// One call may bind a tensor twice: reads of the old content are recorded before writes.
void Stream::note_captured_uses(const kpx_array *arrays, uint32_t n) {
    for (const bool needed : {true, false}) {
        for (uint32_t i = 0; i < n; i++) {
            if (arrays[i].tensor == nullptr) {
                continue;
            }
            const Access access = access_of(arrays[i]);
            if (access.needs == needed) {
                capture_->note(tensor_of(arrays[i].tensor), access.needs, access.writes);
            }
        }
    }
}

template <typename Fill, typename Lower>
void Stream::append(Fill fill, const kpx_array *arrays, uint32_t n, Lower lower, const CallWords *call) {
    Window &window = capture_ ? capture_->window : window_;
    if (window.append(fill, lower, call)) {
        capture_ ? note_captured_uses(arrays, n) : note_uses(arrays, n);
    }
    counters_.ops++;
}

// Appends the op call if it comes again as in a window that was recorded: then its dispatches are known. Otherwise
// call_ becomes the call.
bool Stream::repeat(const RawCall &call) {
    if (window_.empty() && !window_.follows()) {
        call_.describe(call);
        window_.follow(recordings_.find(call_));
    }
    bool has_dispatch = false;
    if (!window_.follows() || !window_.repeat(call, device_->memory(), has_dispatch)) {
        call_.describe(call);
        return false;
    }
    for (uint32_t i = 0; i < call.n; i++) {
        if (call.arrays[i].tensor != nullptr) {
            window_.keep(tensor_of(call.arrays[i].tensor)->buffer);
        }
    }
    if (has_dispatch) {
        note_uses(call.arrays, call.n);
    }
    counters_.ops++;
    counters_.repeated_ops++;
    return true;
}

void Stream::op(int32_t op, const kpx_array *arrays, uint32_t n, const void *params, uint32_t size) {
    device_->check_alive();
    op_row(op); // there must be one
    if (size > 0 && params == nullptr) {
        fail(KPX_INVALID, "{} bytes of parameters, but none were given", size);
    }
    for (uint32_t i = 0; i < n; i++) { // between two tokens, hundreds of tensors have left the cache
        prefetch(arrays[i].tensor, sizeof(Tensor));
    }
    const auto *bytes = static_cast<const uint8_t *>(params);
    const auto fill = [&](OpNode &node) {
        fill_node(node, op, *device_, arrays, n);
        node.params.assign(bytes, bytes + size);
    };
    Lock lock(device_->mutex());
    report_refused();
    make_ready(lock, *this, arrays, n);
    if (!capture_ && repeat({op, arrays, n, params, size})) {
        return;
    }
    const auto lower = [&](const OpNode &node, Program &program) {
        const OpCall call{node.arrays.data(), n, node.params.data(), size};
        lower_call(*device_, program, op, call, capture_ ? nullptr : &window_.log());
    };
    append(fill, arrays, n, lower, &call_);
}

void Stream::dispatch(const std::shared_ptr<Algorithm> &algorithm, const kpx_array *arrays, uint32_t n, Grid groups,
                      const void *push, uint32_t push_bytes) {
    device_->check_alive();
    const auto fill = [&](OpNode &node) { fill_node(node, OpNode::kOpaque, *device_, arrays, n); };
    Lock lock(device_->mutex());
    report_refused();
    make_ready(lock, *this, arrays, n);
    append(fill, arrays, n, [&](const OpNode &node, Program &program) {
        append_algorithm(*device_, program, algorithm, node.arrays, arrays, groups, push, push_bytes);
    });
}

void Stream::append_upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes,
                           bool wrapped) {
    const uint64_t to = buffer->offset() + offset;
    const UploadStaging::Place staged = uploads_.put(data, bytes, to % 4, wrapped);
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_WRITE); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(*device_, program, {staged.block->buffer, staged.offset, staged.block},
                        {buffer->handle(), to, buffer, buffer.get()}, bytes);
    });
    uploads_.appended(bytes);
}

void Stream::append_read(const std::shared_ptr<Buffer> &buffer, uint64_t offset,
                         const std::shared_ptr<HostBlock> &block, uint64_t block_offset, uint64_t bytes) {
    const auto fill = [&](OpNode &node) { fill_transfer(node, buffer, offset, bytes, KPX_READ); };
    window_.append(fill, [&](const OpNode &, Program &program) {
        append_transfer(*device_, program, {buffer->handle(), buffer->offset() + offset, buffer, buffer.get()},
                        {block->buffer, block_offset, block}, bytes);
    });
    window_.read_by_host();
}

void Stream::count_upload(uint64_t bytes) {
    counters_.uploads++;
    counters_.upload_bytes += bytes;
}

} // namespace kpx
