// Host copies of tensors: the library's memory or the caller's.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace kpx {

struct HostMemory {
    uint8_t *data;
    uint64_t bytes;
};

// Keeps freed host memory for the next tensor of similar size, so that tensors
// of each token do not need newly zeroed pages from the system.
class HostPool : public std::enable_shared_from_this<HostPool> {
  public:
    ~HostPool();
    // Memory with undefined content, aligned for every element type. It returns to the pool with its last owner. Throws
    // std::bad_alloc.
    std::shared_ptr<HostMemory> take(uint64_t bytes);
    // The same, zeroed: new pages, which take no memory until they are written.
    std::shared_ptr<HostMemory> zeroed(uint64_t bytes);
    // The caller's memory, which must stay in place.
    static std::shared_ptr<HostMemory> wrap(const void *memory, uint64_t bytes);
    uint64_t in_use() const { return in_use_; } // bytes, wrapped memory not counted

  private:
    static constexpr uint64_t kMostSpare = uint64_t(256) << 20;

    static uint64_t size_class(uint64_t bytes);
    std::shared_ptr<HostMemory> own(void *memory, uint64_t bytes, uint64_t capacity);
    void give_back(void *memory, uint64_t capacity) noexcept;

    std::mutex mutex_;
    std::map<uint64_t, std::vector<void *>> spare_; // by capacity, which is a size class
    uint64_t spare_bytes_ = 0;
    std::atomic<uint64_t> in_use_{0};
};

// Copies the caller's memory, which may be a mapped file: if that has shrunk, touching it would end the process, so the
// kernel copies it. Throws KPX_UNREADABLE.
void copy_wrapped(void *to, const void *from, uint64_t bytes);

} // namespace kpx
