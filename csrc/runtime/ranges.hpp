// Allocates ranges of one block of bytes, and joins them again when they are
// freed. It only does arithmetic, and touches no memory.
#pragma once

#include <cstdint>
#include <vector>

namespace kpx {

class RangeAllocator {
  public:
    static constexpr uint64_t kNone = UINT64_MAX;

    explicit RangeAllocator(uint64_t size);

    // The start of a free range of that many bytes, taken from the smallest one that fits, or kNone.
    uint64_t take(uint64_t bytes);
    // Returns what one call of take() gave.
    void give_back(uint64_t start, uint64_t bytes) noexcept;
    bool empty() const { return free_.size() == 1 && free_[0].bytes == size_; }
    uint64_t largest() const;

  private:
    struct Range {
        uint64_t start, bytes;
    };

    uint64_t size_;
    size_t taken_ = 0;        // ranges; at most one more is free, for which there is always room
    std::vector<Range> free_; // by start; neighbours are always joined
};

} // namespace kpx
