#include "cache/tensor.hpp"

#include <algorithm>

#include "runtime/device.hpp"

namespace kpx {

Tensor::Tensor(std::shared_ptr<Device> owner, uint64_t size) : device(std::move(owner)), bytes(size) {
    device->count_tensor(int64_t(bytes), 1);
}

void Tensor::close() {
    closed = true;
    device->count_tensor(-int64_t(bytes), -1);
    if (buffer) {
        buffer->close();
    }
}

// A region that looked at the tensor has to look again.
void Tensor::changed() {
    if (regions > 0) {
        device->cache_changed();
    }
}

void Tensor::settle() {
    if (writer_ && writer_->refused && uploaded_) {
        device_fresh = false;
        writer_.reset();
        uploaded_ = false;
        changed();
    }
}

void Tensor::check_content() const {
    if (writer_ && writer_->refused && !uploaded_) {
        Error error = *writer_->refused;
        error.of_content = true;
        throw error;
    }
}

void Tensor::wrote(const std::shared_ptr<Point> &point) {
    if (writer_ != point) {
        writer_ = point;
        changed();
    }
    count_++;
    uploaded_ = false;
    readers_.clear();
    device_fresh = true;
    host_fresh = false;
    host.reset();
}

void Tensor::went_up(const std::shared_ptr<Point> &point) {
    writer_ = point;
    uploaded_ = true;
    readers_.clear();
    device_fresh = true;
    changed();
}

void Tensor::read_at(const std::shared_ptr<Point> &point) {
    if (writer_ && writer_->timeline == point->timeline && writer_->value >= point->value) {
        return; // whoever follows the writer follows the reader too
    }
    for (std::shared_ptr<Point> &reader : readers_) {
        if (reader == point) {
            return;
        }
        if (reader->timeline == point->timeline && reader->value <= point->value && !point->refused) {
            reader = point; // a stream runs in order
            changed();
            return;
        }
    }
    forget_finished_readers();
    readers_.push_back(point);
    changed();
}

// Whoever writes need not wait for what is known to be done: reads leave
// nothing behind that would have to be made visible.
void Tensor::forget_finished_readers() {
    constexpr size_t kFew = 4;
    if (readers_.size() < kFew) {
        return;
    }
    readers_.erase(std::remove_if(readers_.begin(), readers_.end(),
                                  [](const auto &reader) { return reader->refused || reader->seen_done(); }),
                   readers_.end());
}

void Tensor::host_wrote(std::shared_ptr<HostMemory> content) {
    host = std::move(content);
    // What the device still does with its copy is in the order of streams: the
    // next upload waits for it. But an error of the old content goes with it.
    if (writer_ && writer_->refused) {
        writer_.reset();
        uploaded_ = false;
    }
    host_changed();
}

void Tensor::came_down(std::shared_ptr<HostMemory> content) {
    host = std::move(content);
    host_fresh = true;
    changed();
}

void Tensor::host_changed() {
    count_++;
    host_fresh = true;
    device_fresh = false;
    changed();
}

} // namespace kpx
