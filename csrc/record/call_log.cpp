#include "record/call_log.hpp"

#include <algorithm>
#include <cstring>

#include "cache/cache.hpp"
#include "runtime/memory.hpp"
#include "runtime/prefetch.hpp"

namespace kpx {

namespace {

// Calls put(word) for each word of the call.
template <typename Put> void each_word(const RawCall &call, Put put) {
    put(uint64_t(uint32_t(call.op)) << 32 | call.n);
    put(call.size);
    const auto *bytes = static_cast<const uint8_t *>(call.params);
    for (uint32_t done = 0; done < call.size; done += 8) { // the last word may be only partly filled
        uint64_t word = 0;
        memcpy(&word, bytes + done, std::min<uint32_t>(8, call.size - done));
        put(word);
    }
    for (uint32_t i = 0; i < call.n; i++) {
        const kpx_array &array = call.arrays[i];
        if (array.tensor == nullptr) {
            put(0); // no serial number
            continue;
        }
        const Tensor &tensor = *tensor_of(array.tensor);
        put(tensor.buffer->serial());
        put(tensor.buffer->offset());
        put(tensor.bytes);
        put(uint64_t(array.dtype) << 32 | array.access);
        put(array.rank);
        put(uint64_t(array.offset));
        for (uint32_t axis = 0; axis < array.rank && axis < KPX_MAX_RANK; axis++) {
            put(uint64_t(array.shape[axis]));
            put(uint64_t(array.strides[axis]));
        }
    }
}

// How many words that are.
size_t count_words(const RawCall &call) {
    size_t count = 2 + (size_t(call.size) + 7) / 8;
    for (uint32_t i = 0; i < call.n; i++) {
        const kpx_array &array = call.arrays[i];
        count += array.tensor == nullptr ? 1 : 6 + 2 * std::min<size_t>(array.rank, KPX_MAX_RANK);
    }
    return count;
}

} // namespace

void CallWords::describe(const RawCall &call) {
    words_.clear();
    each_word(call, [this](uint64_t word) { words_.push_back(word); });
    places_.clear();
    for (uint32_t i = 0; i < call.n; i++) {
        if (call.arrays[i].tensor != nullptr && call.arrays[i].create == 0) {
            places_.push_back(call.arrays[i].tensor);
            places_.push_back(tensor_of(call.arrays[i].tensor)->buffer.get());
        }
    }
}

bool CallLog::equals(size_t i, const CallWords &call) const {
    const std::vector<uint64_t> &words = call.words();
    const size_t first = first_word(i);
    return calls_[i].words - first == words.size() &&
           memcmp(words_.data() + first, words.data(), words.size() * sizeof words[0]) == 0;
}

bool CallLog::equals(size_t i, const RawCall &call) const {
    const size_t first = first_word(i);
    if (calls_[i].words - first != count_words(call)) {
        return false;
    }
    const uint64_t *at = words_.data() + first;
    uint64_t different = 0;
    each_word(call, [&](uint64_t word) { different |= *at++ ^ word; });
    return different == 0;
}

void CallLog::prefetch(size_t i) const {
    kpx::prefetch(words_.data() + first_word(i), (calls_[i].words - first_word(i)) * sizeof words_[0]);
    for (size_t k = first_place(i); k < calls_[i].places; k += 2) {
        kpx::prefetch(places_[k], sizeof(Tensor));
        kpx::prefetch(places_[k + 1], 1);
    }
}

bool CallLog::take_scratch(size_t i, Memory &memory, std::vector<std::shared_ptr<Buffer>> &out) const {
    for (size_t k = first_scratch(i); k < calls_[i].scratch; k++) {
        const Scratch &want = scratch_[k];
        out.push_back(want.counters ? memory.allocate_counters(want.bytes, Making::without_mutex)
                                    : memory.allocate(want.bytes));
        if (out.back()->handle().serial != want.serial || out.back()->offset() != want.offset) {
            return false;
        }
    }
    return true;
}

void CallLog::add(const CallWords &call, const Program &program) {
    words_.insert(words_.end(), call.words().begin(), call.words().end());
    places_.insert(places_.end(), call.places().begin(), call.places().end());
    calls_.push_back({words_.size(), scratch_.size(), places_.size(), program.mark(), program.ends_at_host()});
}

void CallLog::add_scratch(const Buffer &buffer, bool counters) {
    scratch_.push_back({buffer.bytes(), counters, buffer.handle().serial, buffer.offset()});
}

void CallLog::drop_unfinished() {
    words_.resize(first_word(calls_.size()));
    scratch_.resize(first_scratch(calls_.size()));
    places_.resize(first_place(calls_.size()));
}

void CallLog::assign(const CallLog &other, size_t calls) {
    words_.assign(other.words_.begin(), other.words_.begin() + ptrdiff_t(other.first_word(calls)));
    scratch_.assign(other.scratch_.begin(), other.scratch_.begin() + ptrdiff_t(other.first_scratch(calls)));
    places_.assign(other.places_.begin(), other.places_.begin() + ptrdiff_t(other.first_place(calls)));
    calls_.assign(other.calls_.begin(), other.calls_.begin() + ptrdiff_t(calls));
    complete_ = true;
}

void CallLog::clear() {
    words_.clear();
    scratch_.clear();
    places_.clear();
    calls_.clear();
    complete_ = true;
}

} // namespace kpx
