// Recordings of a stream's last windows. A loop that enqueues the same work
// again, as the next token of a model does, gets the same memory for it again,
// and so the same dispatches with the same bindings: then what was recorded is
// submitted anew, and nothing is recorded. A recording whose buffers or pipelines
// are gone stays until others push it out: it is found by their serial numbers,
// which no later object has, so it never runs again.
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
    // A recording of the program, to be held as long as the work may run: until
    // then nobody else gets it. known: it was recorded before. Not thread-safe.
    // log: the calls that gave the program, or null; if it is complete, it is taken over, and the window can be followed.
    std::shared_ptr<Recording> get(const std::shared_ptr<Device> &device, const Queue &queue, Program &program,
                                   bool &known, CallLog *log = nullptr);
    // A window that begins with this call and whose recording is idle, or null.
    std::shared_ptr<const KnownWindow> find(const CallWords &call) const;
    // The recording of a window that find() returned; null if it is in use or gone by now.
    std::shared_ptr<Recording> repeat(const KnownWindow &window);

  private:
    static constexpr size_t kMost = 32;

    // All that a recording depends on, in words.
    using Key = std::vector<uint64_t>;
    struct Entry {
        uint64_t hash;
        Key key;
        std::shared_ptr<Recording> recording;
        std::shared_ptr<const KnownWindow> window; // null if it cannot be followed
        bool idle() const { return recording.use_count() == 1; }
    };

    void describe(const Program &program);

    std::list<Entry> entries_; // the one used last is the first
    Key key_;                  // of the program asked for
    uint64_t hash_ = 0;
};

} // namespace kpx
