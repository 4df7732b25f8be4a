// Recordings of a stream's last windows. A loop that enqueues the same work
// again, as the next token of a model does, gets the same memory again, and so
// the same dispatches with the same bindings: the earlier recording is submitted
// again, and nothing is recorded. A recording whose buffers or pipelines are gone
// stays until it is evicted. It never runs again, because recordings are found by
// serial numbers, which are not reused.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "record/recording.hpp"
#include "record/window.hpp"

namespace kpx {

class RecordingCache {
  public:
    // A recording of the program. The caller holds it for as long as the work may
    // run; meanwhile nobody else gets it. known: it was recorded before. log: the
    // calls that made the program, or null; a complete one is moved into the cache,
    // and the window can then be followed. Not thread-safe.
    std::shared_ptr<Recording> get(const std::shared_ptr<Device> &device, const Queue &queue, Program &program,
                                   bool &known, CallLog *log = nullptr);
    // A window that begins with this call and whose recording is idle, or null.
    std::shared_ptr<const KnownWindow> find(const CallWords &call) const;
    // The recording of a window that find() returned; null if it is in use or evicted by now.
    std::shared_ptr<Recording> repeat(const KnownWindow &window);

  private:
    static constexpr size_t kMost = 32;

    // Everything that a recording depends on, as words.
    using Key = std::vector<uint64_t>;
    struct Entry {
        uint64_t hash;
        Key key;
        std::shared_ptr<Recording> recording;
        std::shared_ptr<const KnownWindow> window; // null if it cannot be followed
        bool idle() const { return recording.use_count() == 1; }
    };

    void describe(const Program &program);

    std::list<Entry> entries_; // most recently used first
    Key key_;                  // of the requested program
    uint64_t hash_ = 0;
};

} // namespace kpx
