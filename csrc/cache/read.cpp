#include "cache/read.hpp"

#include <cstring>

#include "cache/cache.hpp"
#include "runtime/device.hpp"
#include "runtime/memory.hpp"

namespace kpx {

namespace {

// The stream whose work makes the content, if the copy should be appended
// there: the work is pending, or is held back and would hold back other work
// after it.
std::shared_ptr<Stream> maker(const Tensor &tensor) {
    const std::shared_ptr<Point> &writer = tensor.writer();
    if (!writer || writer->refused) {
        return nullptr;
    }
    const bool with_driver = !writer->pending && writer->value <= writer->timeline->queued();
    std::shared_ptr<Stream> stream = with_driver ? nullptr : writer->stream.lock();
    return stream && !stream->finished() ? stream : nullptr;
}

} // namespace

std::unique_ptr<Read> Read::start(const std::shared_ptr<Tensor> &tensor, const std::shared_ptr<Stream> &given,
                                  kpx_read_when when, uint64_t offset, uint64_t bytes) {
    Tensor &t = *tensor;
    t.device->check_alive();
    if (t.device != given->device()) {
        fail(KPX_INVALID, "the tensor is on another device than the stream");
    }
    if (offset > t.bytes || bytes > t.bytes - offset) {
        fail(KPX_INVALID, "{} bytes at {} cannot be read from a tensor of {}", bytes, offset, t.bytes);
    }
    std::unique_ptr<Read> made(new Read(tensor, offset, bytes));
    std::shared_ptr<Stream> stream = given; // outlives the lock
    Lock lock(t.device->mutex());
    given->report_refused();
    t.device->moved().wait(lock, [&] { return !t.moving; });
    t.settle();
    t.check_content();
    const bool on_device = t.mapped ? t.writer() != nullptr : t.device_fresh && !t.host_fresh;
    t.device->count_lookup(!on_device);
    if (!on_device || bytes == 0) {
        made->take_host();
        return made;
    }
    if (when == KPX_READ_SOON) {
        if (std::shared_ptr<Stream> other = maker(t)) {
            stream = std::move(other);
        }
    }
    make_ready(lock, *stream, tensor, {true, false, true});
    made->append(*stream);
    if (when == KPX_READ_SOON) {
        made->submit(given.get());
    }
    return made;
}

// A write copies the memory first if it is shared.
Read::~Read() {
    if (memory_) {
        Lock lock(device_->mutex());
        memory_.reset();
    }
}

void Read::take_host() {
    Tensor &t = *tensor_;
    if (t.mapped) {
        memory_ = device_->host_memory().take(bytes_);
        memcpy(memory_->data, t.buffer->mapped() + offset_, bytes_);
        data_ = memory_->data;
        return;
    }
    if (!t.host) {
        t.host = device_->host_memory().zeroed(t.bytes); // undefined content
    }
    if (t.read_only) { // the caller may free the memory once the tensor is closed
        memory_ = device_->host_memory().take(bytes_);
        copy_wrapped(memory_->data, t.host->data + offset_, bytes_);
        data_ = memory_->data;
        return;
    }
    memory_ = t.host; // shared: writes copy it first
    data_ = memory_->data + offset_;
}

void Read::append(Stream &stream) {
    const std::shared_ptr<Buffer> buffer = tensor_->buffer;
    for (uint64_t done = 0; done < bytes_;) {
        const uint64_t size = std::min(bytes_ - done, Staging::kLarge - 4);
        const uint64_t phase = (buffer->offset() + offset_ + done) % 4;
        parts_.push_back({device_->staging().take(Staging::For::download, size + 4), phase, size});
        done += size;
    }
    // Only now, when there is memory for all of them: writers wait for what read_at is told below.
    uint64_t at = offset_;
    for (const Part &part : parts_) {
        stream.append_read(buffer, at, part.block, part.offset, part.bytes);
        at += part.bytes;
    }
    point_ = stream.point();
    tensor_->read_at(point_);
    version_ = tensor_->version();
}

// If the window with the copy is refused, all work in it failed, not only the read.
void Read::submit(const Stream *caller) {
    bool lost = false;
    if (point_->pending) {
        if (std::shared_ptr<Stream> stream = point_->stream.lock()) {
            lost = stream->submit_for(caller);
        }
    }
    if (point_->refused) {
        Error error = *point_->refused;
        error.of_content = tensor_ && tensor_->writer() && tensor_->writer()->refused;
        error.of_window = lost;
        throw error;
    }
}

const void *Read::wait(uint64_t timeout_ns) {
    if (!point_) {
        return data_;
    }
    std::unique_lock<std::mutex> taking(taking_);
    if (data_ != nullptr) {
        return data_;
    }
    taking.unlock();
    {
        Lock lock(device_->mutex());
        submit(nullptr);
    }
    point_->timeline->wait(point_->value, timeout_ns);
    if (const std::shared_ptr<Stream> stream = point_->stream.lock()) {
        stream->collect();
    }
    taking.lock();
    if (data_ == nullptr) {
        take_parts();
    }
    return data_;
}

// Small reads stay in staging memory; larger ones are copied out to free it.
void Read::take_parts() {
    const bool whole = tensor_->is_whole(offset_, bytes_);
    if (parts_.size() == 1 && !whole) {
        data_ = parts_[0].block->data + parts_[0].offset;
        tensor_.reset();
        return;
    }
    memory_ = device_->host_memory().take(bytes_);
    uint8_t *to = memory_->data;
    for (Part &part : parts_) {
        memcpy(to, part.block->data + part.offset, part.bytes);
        to += part.bytes;
        part.block.reset();
    }
    data_ = memory_->data;
    if (whole) {
        keep();
    }
    tensor_.reset();
}

// The bytes become the tensor's host copy if the tensor was not written meanwhile.
void Read::keep() {
    Lock lock(device_->mutex());
    Tensor &t = *tensor_;
    if (t.version() == version_ && t.device_fresh && !t.host_fresh && !t.moving && !t.mapped && !t.closed) {
        t.came_down(memory_);
    }
}

} // namespace kpx
