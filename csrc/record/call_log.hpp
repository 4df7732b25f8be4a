// The op calls of a window, as far as their dispatches depend on them. A window
// with the same calls on the same memory as one that was recorded has the same
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

// One op call, in words: op, parameters, and of each operand the view and where its memory is. Memory is named by its
// serial number and offset, so the words stay valid as a description when it is freed.
class CallWords {
  public:
    // The operands are ready: they have memory.
    void describe(int32_t op, const kpx_array *arrays, uint32_t n, const void *params, uint32_t size);
    const std::vector<uint64_t> &words() const { return words_; }

  private:
    std::vector<uint64_t> words_;
};

class CallLog {
  public:
    // Memory that a lowering took for itself.
    struct Scratch {
        uint64_t bytes;
        bool counters;
        uint64_t serial, offset; // of the memory that it got
    };
    struct Call {
        size_t words, scratch; // where those of the next call begin
        Program::Mark end;     // of its dispatches
        bool to_host;          // memory that the host sees was written, up to this call
    };

    size_t size() const { return calls_.size(); }
    const Call &call(size_t i) const { return calls_[i]; }
    bool equals(size_t i, const CallWords &call) const;
    // Takes the memory that lowering call i took. Null if that is not at the same place as before.
    bool take_scratch(size_t i, Memory &memory, std::vector<std::shared_ptr<Buffer>> &out) const;
    // Whether the log tells all that the window does.
    bool complete() const { return complete_; }

    // ---- Writing ----
    void add(const CallWords &call, const Program &program);
    void add_scratch(const Buffer &buffer, bool counters);
    void drop_scratch(); // of a call that is not added
    // Something is appended that is no op.
    void add_other() { complete_ = false; }
    // Starts anew with the first calls of another log.
    void assign(const CallLog &other, size_t calls);
    void clear();

  private:
    size_t first_word(size_t i) const { return i == 0 ? 0 : calls_[i - 1].words; }
    size_t first_scratch(size_t i) const { return i == 0 ? 0 : calls_[i - 1].scratch; }

    std::vector<uint64_t> words_;
    std::vector<Scratch> scratch_;
    std::vector<Call> calls_;
    bool complete_ = true;
};

} // namespace kpx
