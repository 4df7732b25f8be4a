// The work that was appended to a stream and is not submitted yet.
#pragma once

#include <cstdint>
#include <memory>

#include "record/append.hpp"
#include "record/recording_cache.hpp"
#include "record/window.hpp"
#include "runtime/tally.hpp"
#include "stream/upload_staging.hpp"

namespace kpx {

class Buffer;
class Device;
struct HostBlock;
struct Queue;
struct Submission;

// Guarded by the device's mutex.
class PendingWork {
  public:
    explicit PendingWork(Device &device) : device_(device), window_(device, false), uploads_(device) {}

    bool empty() const { return window_.empty(); }
    uint64_t staged() const { return uploads_.pending(); } // bytes of uploads
    uint64_t repeated_ops() const { return repeated_ops_; }

    // Both return whether there is a dispatch; work on no elements has none. If they throw, nothing was appended.
    bool append(const RawCall &call);
    bool append(const DispatchCall &call) { return append_call(device_, window_, call); }
    // Appends a copy from staging memory to the buffer, or the other way.
    // wrapped: the data is the caller's memory, see copy_wrapped.
    void upload(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const void *data, uint64_t bytes, bool wrapped);
    void read(const std::shared_ptr<Buffer> &buffer, uint64_t offset, const std::shared_ptr<HostBlock> &block,
              uint64_t block_offset, uint64_t bytes);

    // Takes the work out, recorded, into the submission, whose timing it observes. Returns whether an earlier recording
    // serves. If it throws, the work is discarded.
    bool record(const std::shared_ptr<Device> &device, const Queue &queue, Submission &work);
    // What record() took out is submitted.
    void submitted() { uploads_.taken(); }
    // Discards everything.
    void clear();
    // The same; returns the window, so that its memory is freed without the mutex.
    Window discard();

  private:
    bool repeat(const RawCall &call, bool &has_dispatch);

    Device &device_;
    Window window_;
    RecordingCache recordings_; // of windows
    CallWords call_;            // being appended
    UploadStaging uploads_;
    Tally repeated_ops_;
};

} // namespace kpx
