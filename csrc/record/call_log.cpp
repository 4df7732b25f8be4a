#include "record/call_log.hpp"

#include <cstring>

#include "cache/cache.hpp"
#include "runtime/memory.hpp"

namespace kpx {

void CallWords::describe(int32_t op, const kpx_array *arrays, uint32_t n, const void *params, uint32_t size) {
    constexpr size_t kOfArray = 6 + 2 * KPX_MAX_RANK;
    words_.resize(2 + (size + 7) / 8 + n * kOfArray); // the most that may be needed
    uint64_t *to = words_.data();
    *to++ = uint64_t(uint32_t(op)) << 32 | n;
    *to++ = size;
    if (size > 0) {
        to[(size - 1) / 8] = 0; // the last word may be only partly filled
        memcpy(to, params, size);
        to += (size + 7) / 8;
    }
    for (uint32_t i = 0; i < n; i++) {
        const kpx_array &array = arrays[i];
        if (array.tensor == nullptr) {
            *to++ = 0; // no serial number
            continue;
        }
        const Tensor &tensor = *tensor_of(array.tensor);
        *to++ = tensor.buffer->serial();
        *to++ = tensor.buffer->offset();
        *to++ = tensor.bytes;
        *to++ = uint64_t(array.dtype) << 32 | array.access;
        *to++ = array.rank;
        *to++ = uint64_t(array.offset);
        for (uint32_t axis = 0; axis < array.rank && axis < KPX_MAX_RANK; axis++) {
            *to++ = uint64_t(array.shape[axis]);
            *to++ = uint64_t(array.strides[axis]);
        }
    }
    words_.resize(size_t(to - words_.data()));
}

bool CallLog::equals(size_t i, const CallWords &call) const {
    const std::vector<uint64_t> &words = call.words();
    const size_t first = first_word(i);
    return calls_[i].words - first == words.size() &&
           memcmp(words_.data() + first, words.data(), words.size() * sizeof words[0]) == 0;
}

bool CallLog::take_scratch(size_t i, Memory &memory, std::vector<std::shared_ptr<Buffer>> &out) const {
    for (size_t k = first_scratch(i); k < calls_[i].scratch; k++) {
        const Scratch &want = scratch_[k];
        out.push_back(want.counters ? memory.allocate_counters(want.bytes) : memory.allocate(want.bytes));
        if (out.back()->handle().serial != want.serial || out.back()->offset() != want.offset) {
            return false;
        }
    }
    return true;
}

void CallLog::add(const CallWords &call, const Program &program) {
    words_.insert(words_.end(), call.words().begin(), call.words().end());
    calls_.push_back({words_.size(), scratch_.size(), program.mark(), program.ends_at_host()});
}

void CallLog::add_scratch(const Buffer &buffer, bool counters) {
    scratch_.push_back({buffer.bytes(), counters, buffer.handle().serial, buffer.offset()});
}

void CallLog::drop_scratch() {
    scratch_.resize(first_scratch(calls_.size()));
}

void CallLog::assign(const CallLog &other, size_t calls) {
    words_.assign(other.words_.begin(), other.words_.begin() + ptrdiff_t(other.first_word(calls)));
    scratch_.assign(other.scratch_.begin(), other.scratch_.begin() + ptrdiff_t(other.first_scratch(calls)));
    calls_.assign(other.calls_.begin(), other.calls_.begin() + ptrdiff_t(calls));
    complete_ = true;
}

void CallLog::clear() {
    words_.clear();
    scratch_.clear();
    calls_.clear();
    complete_ = true;
}

} // namespace kpx
