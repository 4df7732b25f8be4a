// Cuts ranges out of one block of bytes and joins them again when they are given
// back. Host arithmetic only; the device never sees it.
#pragma once

#include <cstdint>
#include <map>

namespace kpx {

class RangeAllocator {
  public:
    static constexpr uint64_t kNone = UINT64_MAX;

    explicit RangeAllocator(uint64_t size) : size_(size) { free_[0] = size; }

    // Start of a free range of that many bytes (the smallest that fits), or kNone.
    uint64_t take(uint64_t bytes);
    void give_back(uint64_t start, uint64_t bytes);
    bool empty() const { return free_.size() == 1 && free_.begin()->second == size_; }
    uint64_t largest() const;

  private:
    uint64_t size_;
    std::map<uint64_t, uint64_t> free_; // start → bytes; neighbours are always joined
};

} // namespace kpx
