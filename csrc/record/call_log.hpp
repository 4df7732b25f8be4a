// The op calls of a window: everything about them that its dispatches depend on.
// A window with the same calls on the same memory as a recorded one has the same
// dispatches, so nothing has to be lowered or recorded for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "abi/kpx.h"
#include "record/program.hpp"

namespace kpx {

class Buffer;
class Memory;

// An op call as it comes. The operands must have memory.
struct RawCall {
    int32_t op;
    const kpx_array *arrays;
    uint32_t n;
    const void *params;
    uint32_t size;
};

// One op call as words: op, parameters, and the view and memory of each operand. Memory is identified by serial number
// and offset, so the words remain a valid description after it is freed.
class CallWords {
  public:
    void describe(const RawCall &call);
    const std::vector<uint64_t> &words() const { return words_; }
    const std::vector<const void *> &places() const { return places_; }

  private:
    std::vector<uint64_t> words_;
    std::vector<const void *> places_; // of the operands' tensors and buffers, unless the call makes them
};

class CallLog {
  public:
    // Scratch memory that a lowering allocated.
    struct Scratch {
        uint64_t bytes;
        bool counters;
        uint64_t serial, offset; // of the memory
    };
    struct Call {
        size_t words, scratch, places; // where those of the next call begin
        Program::Mark end;             // of its dispatches
        bool to_host;                  // whether calls up to this one wrote memory that the host sees
    };

    size_t size() const { return calls_.size(); }
    const Call &call(size_t i) const { return calls_[i]; }
    bool equals(size_t i, const CallWords &call) const;
    bool equals(size_t i, const RawCall &call) const; // the same, without making words
    // Loads what equals() and the cache will look at if call i comes next.
    void prefetch(size_t i) const;
    // Allocates the scratch memory of call i. False if it is not at the same place as before.
    bool take_scratch(size_t i, Memory &memory, std::vector<std::shared_ptr<Buffer>> &out) const;
    // Whether the log covers all work of the window.
    bool complete() const { return complete_; }

    // ---- Writing ----
    void add(const CallWords &call, const Program &program);
    void add_scratch(const Buffer &buffer, bool counters);
    void drop_unfinished(); // what belongs to a call that is not added
    // Work other than an op was appended.
    void add_other() { complete_ = false; }
    // Replaces the content by the first calls of another log.
    void assign(const CallLog &other, size_t calls);
    void clear();

  private:
    size_t first_word(size_t i) const { return i == 0 ? 0 : calls_[i - 1].words; }
    size_t first_scratch(size_t i) const { return i == 0 ? 0 : calls_[i - 1].scratch; }
    size_t first_place(size_t i) const { return i == 0 ? 0 : calls_[i - 1].places; }

    std::vector<uint64_t> words_;
    std::vector<Scratch> scratch_;
    std::vector<const void *> places_; // may be gone: only to be prefetched
    std::vector<Call> calls_;
    bool complete_ = true;
};

} // namespace kpx
