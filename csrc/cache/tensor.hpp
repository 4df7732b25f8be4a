// An entry of the tensor cache: the storage behind views. It knows which of its
// copies is current, who writes it last and who reads it. Views know nothing of
// that, so that two views of one storage cannot disagree.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "cache/host_memory.hpp"
#include "stream/point.hpp"

namespace kpx {

class Buffer;
class Device;

class Tensor {
  public:
    // Counts as live until close().
    Tensor(std::shared_ptr<Device> owner, uint64_t size);

    const std::shared_ptr<Device> device;
    const uint64_t bytes;
    bool read_only = false; // host memory is the caller's
    bool mapped = false;    // the host sees the device's copy, and there is no other

    std::atomic<uint32_t> regions{0}; // that use it

    // ---- Guarded by the device's mutex ----
    std::shared_ptr<HostMemory> host; // null until it is needed
    std::shared_ptr<Buffer> buffer;   // the device's copy; null until it is needed
    bool host_fresh = false;          // the host's copy has the newest content
    bool device_fresh = false;        // the device's has it
    bool closed = false;              // the handle is gone
    bool moving = false;              // its content is being copied with the mutex released

    // Takes note of what became of the writer's window. What a refused one was to do has not happened: an upload is
    // made again.
    void settle();
    // Throws the error of the work that was to make the content. Only after settle().
    void check_content() const;
    // Whether the first so many bytes from offset on are all there are.
    bool is_whole(uint64_t offset, uint64_t count) const { return offset == 0 && count >= bytes; }

    // Work at that point writes the device's copy, which is the newest from then on.
    void wrote(const std::shared_ptr<Point> &point);
    // Work at that point copies the host's content to the device.
    void went_up(const std::shared_ptr<Point> &point);
    // The same, but it copies only some: the device's copy is of no use.
    void went_up_in_part(const std::shared_ptr<Point> &point);
    // Work at that point left the device's copy half written, and there is no other: who asks for the content gets the
    // error.
    void lost(const std::shared_ptr<Point> &point, const Error &error);
    void read_at(const std::shared_ptr<Point> &point);
    // The host's copy is the newest, and what it is replaces all there was.
    void host_wrote(std::shared_ptr<HostMemory> content);
    // The host's copy alone changed.
    void host_changed();
    // The handle is gone.
    void close();

    // Tells one content from the next.
    struct Version {
        uint64_t count;
        const Point *writer;
        uint64_t value; // of the writer: a region's replays keep its point
        bool operator==(const Version &other) const {
            return count == other.count && writer == other.writer && value == other.value;
        }
    };
    Version version() const { return {count_, writer_.get(), writer_ ? writer_->value : 0}; }
    // The host has a copy of what is current.
    void came_down(std::shared_ptr<HostMemory> content);

    const std::shared_ptr<Point> &writer() const { return writer_; }
    const std::vector<std::shared_ptr<Point>> &readers() const { return readers_; } // since the last write
    // What the writer comes after, and the next one has to, as long as it is not known that the writer's window was
    // submitted.
    const std::vector<std::shared_ptr<Point>> &earlier() const { return earlier_; }

  private:
    void changed();
    void next_writer(const std::shared_ptr<Point> &point);

    uint64_t count_ = 0; // of writes, but for those of a region's replays in a row
    std::shared_ptr<Point> writer_;
    std::vector<std::shared_ptr<Point>> readers_, earlier_;
};

} // namespace kpx
