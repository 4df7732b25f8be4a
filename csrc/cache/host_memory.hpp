// Host copies of tensors: memory of the library, or of the caller.
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

// Keeps freed host memory for the next tensor of about that size, so that what
// comes and goes with every token does not cost the system's zeroed pages.
class HostPool : public std::enable_shared_from_this<HostPool> {
  public:
    ~HostPool();
    // Memory with any content, aligned for every element type. It comes back when
    // the last owner lets go. Throws std::bad_alloc.
    std::shared_ptr<HostMemory> take(uint64_t bytes);
    // The same, zeroed: fresh pages, which take no memory until they are written.
    std::shared_ptr<HostMemory> zeroed(uint64_t bytes);
    // Memory of the caller, who keeps it in place.
    static std::shared_ptr<HostMemory> wrap(const void *memory, uint64_t bytes);
    uint64_t in_use() const { return in_use_; } // bytes, wrapped memory not counted

  private:
    static constexpr uint64_t kMostSpare = uint64_t(256) << 20;

    static uint64_t size_class(uint64_t bytes);
    std::shared_ptr<HostMemory> own(void *memory, uint64_t bytes, uint64_t capacity);
    void give_back(void *memory, uint64_t capacity);

    std::mutex mutex_;
    std::map<uint64_t, std::vector<void *>> spare_; // by capacity, which is a size class
    uint64_t spare_bytes_ = 0;
    std::atomic<uint64_t> in_use_{0};
};

} // namespace kpx
