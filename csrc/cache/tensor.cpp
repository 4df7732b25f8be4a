#include "cache/tensor.hpp"

#include <algorithm>

#include "runtime/device.hpp"
#include "runtime/pool.hpp"

namespace kpx {

std::shared_ptr<Tensor> Tensor::create(const std::shared_ptr<Device> &owner, uint64_t size) {
    return std::allocate_shared<Tensor>(Pooled<Tensor>(), owner, size);
}

Tensor::Tensor(const std::shared_ptr<Device> &owner, uint64_t size) : device(owner), bytes(size) {
    device->count_tensor(int64_t(bytes), 1);
}

void Tensor::close() {
    closed = true;
    device->count_tensor(-int64_t(bytes), -1);
    if (buffer) {
        close_buffer();
    }
    if (read_only) { // the caller frees the memory; a region may still use the device's copy
        host.reset();
        host_fresh = false;
    }
}

void Tensor::close_buffer() {
    if (regions == 0 && captures <= 1) {
        buffer->close();
    }
}

void Tensor::begin_moving() {
    moving = true;
    changed();
}

// A region that checked the tensor must check it again.
void Tensor::changed() {
    if (regions > 0) {
        device->changes().add(this);
    }
}

void Tensor::settle_writer() {
    if (!writer_->refused) {
        earlier_.clear();
    } else if (host_fresh) {
        device_fresh = false;
        writer_.reset();
        changed();
    }
}

// The host's copy is newer than the content of any window.
void Tensor::check_content() const {
    if (writer_ && writer_->refused && !host_fresh) {
        Error error = *writer_->refused;
        error.of_content = true;
        throw error;
    }
    if (read_only && closed && !device_fresh && bytes > 0) { // its upload was refused, and cannot be repeated
        Error error(KPX_INVALID, "wrapped memory was closed before it was copied to the device");
        error.of_content = true;
        throw error;
    }
}

namespace {

// Adds a point to those that the next writer must follow, and removes earlier
// points of the same stream, which runs in order. A point whose window may
// still be refused replaces no other.
void add(std::vector<std::shared_ptr<Point>> &points, const std::shared_ptr<Point> &point) {
    const auto is_behind = [&](const std::shared_ptr<Point> &other) {
        return other->refused ||
               (!point->pending && other->timeline == point->timeline && other->value <= point->value);
    };
    points.erase(std::remove_if(points.begin(), points.end(), is_behind), points.end());
    points.push_back(point);
}

// A writer does not wait for reads that are known to be done: they leave no
// memory writes to make visible.
void forget_finished(std::vector<std::shared_ptr<Point>> &points) {
    constexpr size_t kFew = 4;
    if (points.size() < kFew) {
        return;
    }
    points.erase(
        std::remove_if(points.begin(), points.end(), [](const auto &p) { return p->refused || p->seen_done(); }),
        points.end());
}

} // namespace

// The previous points are kept while the new writer's window may still be refused.
void Tensor::next_writer(const std::shared_ptr<Point> &point) {
    if (!writer_ && readers_.empty() && earlier_.empty()) {
        writer_ = point;
        changed();
        return;
    }
    settle();
    if (writer_ != point) {
        if (!point->pending && !point->refused) {
            earlier_.clear();
        } else {
            if (writer_ && !writer_->refused) {
                add(earlier_, writer_);
            }
            for (const std::shared_ptr<Point> &reader : readers_) {
                if (reader != point && !reader->refused) {
                    add(earlier_, reader);
                }
            }
            forget_finished(earlier_);
        }
        writer_ = point;
    }
    readers_.clear();
    changed();
}

void Tensor::wrote(const std::shared_ptr<Point> &point) {
    next_writer(point);
    count_++;
    device_fresh = true;
    host_fresh = false;
    host.reset();
}

void Tensor::went_up(const std::shared_ptr<Point> &point) {
    next_writer(point);
    device_fresh = true;
}

// If the window of the point was submitted, the point may be earlier than work that this copy had to follow. So it
// joins the readers, and the next writer follows it and them.
void Tensor::partly_written(const std::shared_ptr<Point> &point) {
    if (point->pending) {
        next_writer(point);
    } else {
        add(readers_, point);
        changed();
    }
}

void Tensor::went_up_in_part(const std::shared_ptr<Point> &point) {
    partly_written(point);
    device_fresh = false;
}

void Tensor::lost(const std::shared_ptr<Point> &point, const Error &error) {
    partly_written(point);
    auto failed = std::make_shared<Point>();
    failed->timeline = point->timeline;
    failed->refuse(error);
    wrote(failed);
}

void Tensor::read_at(const std::shared_ptr<Point> &point) {
    // Following the writer follows both; and what nothing writes, such as a weight, needs no readers.
    if (point == writer_ || read_only) {
        return;
    }
    for (std::shared_ptr<Point> &reader : readers_) {
        if (reader == point) {
            return;
        }
        if (reader->refused || reader->seen_done()) {
            reader = point;
            changed();
            return;
        }
    }
    add(readers_, point);
    forget_finished(readers_);
    changed();
}

void Tensor::host_wrote(std::shared_ptr<HostMemory> content) {
    host = std::move(content);
    // Pending work on the device's copy is ordered: the next upload waits for
    // it. An error of the old content is discarded with it.
    host_changed();
    settle();
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
