// An entry of the tensor cache: the storage behind views. It holds which of its
// copies are up to date, its last writer and its readers. Views hold none of
// that, so two views of one storage cannot disagree.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "abi/handles.hpp"
#include "cache/host_memory.hpp"
#include "stream/point.hpp"

namespace kpx {

class Buffer;
class Device;

class Tensor {
  public:
    // It counts as live until close().
    static std::shared_ptr<Tensor> create(const std::shared_ptr<Device> &owner, uint64_t size);
    Tensor(const std::shared_ptr<Device> &owner, uint64_t size); // for create()

    kpx_tensor handle; // the caller's

    const std::shared_ptr<Device> device;
    const uint64_t bytes;
    bool read_only = false; // the host memory is the caller's
    bool mapped = false;    // the host sees the device's copy, which is the only one

    std::atomic<uint32_t> regions{0};  // that use it
    std::atomic<uint32_t> captures{0}; // under way, that use it

    // ---- Guarded by the device's mutex ----
    std::shared_ptr<HostMemory> host; // null until it is needed
    std::shared_ptr<Buffer> buffer;   // the device's copy; null until it is needed
    bool host_fresh = false;          // the host's copy is up to date
    bool device_fresh = false;        // the device's copy is up to date
    bool closed = false;              // the handle was destroyed
    bool moving = false;              // its content is being copied with the mutex released

    // Updates the state after the writer's window was submitted or refused. Nothing of a refused window happened: an
    // upload is repeated.
    void settle() {
        if (writer_ && !writer_->pending) {
            settle_writer();
        }
    }
    // Throws the error of the work that should have made the content. Only after settle().
    void check_content() const;
    // Whether nothing has ever used it.
    bool is_new() const { return !writer_ && readers_.empty() && !host_fresh && !device_fresh && !buffer; }
    // Whether work of a stream with that timeline can read it as it is: the usual case.
    bool is_readable(const std::shared_ptr<Timeline> &timeline) const {
        return device_fresh && !moving && buffer && earlier_.empty() &&
               (!writer_ || (!writer_->refused && (writer_->timeline == timeline || writer_->timeline->closed())));
    }
    // Whether that range of bytes covers the whole tensor.
    bool is_whole(uint64_t offset, uint64_t count) const { return offset == 0 && count >= bytes; }

    // Work at that point writes the device's copy, which alone is up to date from then on.
    void wrote(const std::shared_ptr<Point> &point);
    // Work at that point copies the host's content to the device.
    void went_up(const std::shared_ptr<Point> &point);
    // Work up to that point has copied only a part: the device's copy is not usable.
    void went_up_in_part(const std::shared_ptr<Point> &point);
    // Work up to that point left the device's copy, the only one, partly written: using the content throws the error.
    void lost(const std::shared_ptr<Point> &point, const Error &error);
    void read_at(const std::shared_ptr<Point> &point);
    // Makes room, so that read_at() takes no memory.
    void expect_reader() {
        if (!read_only) {
            readers_.reserve(readers_.size() + 1);
        }
    }
    // The host's new copy replaces all of the content.
    void host_wrote(std::shared_ptr<HostMemory> content);
    // Only the host's copy changed.
    void host_changed();
    // Its content is about to be copied with the mutex released: replays must wait as well.
    void begin_moving();
    // The handle was destroyed.
    void close();
    // Closes the buffer, so that a capture in progress may take it for its own; not if a region or another capture uses
    // it.
    void close_buffer();

    // Identifies a version of the content.
    struct Version {
        uint64_t count;
        const Point *writer;
        uint64_t value; // of the writer; replays of a region share one point
        bool operator==(const Version &other) const {
            return count == other.count && writer == other.writer && value == other.value;
        }
    };
    Version version() const { return {count_, writer_.get(), writer_ ? writer_->value : 0}; }
    // The host has read an up-to-date copy.
    void came_down(std::shared_ptr<HostMemory> content);

    const std::shared_ptr<Point> &writer() const { return writer_; }
    const std::vector<std::shared_ptr<Point>> &readers() const { return readers_; } // since the last write
    // What the writer follows. The next writer must follow it too until the writer's window is known to be submitted.
    const std::vector<std::shared_ptr<Point>> &earlier() const { return earlier_; }

  private:
    void settle_writer();
    void changed();
    void next_writer(const std::shared_ptr<Point> &point);
    void partly_written(const std::shared_ptr<Point> &point);

    uint64_t count_ = 0; // of writes; consecutive replays of a region count once
    std::shared_ptr<Point> writer_;
    std::vector<std::shared_ptr<Point>> readers_, earlier_;
};

// The handle owns the tensor from now on.
inline kpx_tensor *handle_of(std::shared_ptr<Tensor> tensor) {
    kpx_tensor &handle = tensor->handle;
    handle.object = std::move(tensor);
    return &handle;
}

} // namespace kpx
