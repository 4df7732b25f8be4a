// Device memory: storage buffers cut from slabs of kp::Tensor, or one tensor
// each when they are large. Every limit and budget is checked before Kompute
// allocates, since Kompute takes any result for success.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <kompute/Tensor.hpp>

#include "runtime/missing.hpp"
#include "runtime/numbered.hpp"
#include "runtime/ranges.hpp"

namespace kpx {

class Device;

// One kp::Tensor in eStorage, whole or cut into ranges.
struct Block {
    std::shared_ptr<kp::Tensor> tensor;
    Numbered<vk::Buffer> handle;
    uint64_t bytes;
    std::unique_ptr<RangeAllocator> ranges; // null: the block is one buffer
    uint8_t *mapped = nullptr;              // an eHost tensor: where the host sees it
    bool counters = false;                  // zeroed, and zero again whenever a range is returned
};

// Uninitialised storage on the device. Its range is freed when the last owner,
// a handle or work in flight, releases it. What a capture makes has no memory until
// it is placed: most of it never is, since the memory plan replaces it.
class Buffer {
  public:
    // block null: it is not placed yet.
    Buffer(std::shared_ptr<Device> device, std::shared_ptr<Block> block, uint64_t offset, uint64_t bytes,
           uint64_t capacity);
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    const std::shared_ptr<Device> &device() const { return device_; }
    // Whether it has memory. Until then, handle() is a number that stands for the buffer, and offset() is 0.
    bool placed() const { return block_ != nullptr; }
    const Numbered<vk::Buffer> &handle() const { return block_ ? block_->handle : unplaced_; }
    uint64_t offset() const { return offset_; } // where it starts in handle()
    uint64_t bytes() const { return bytes_; }
    uint64_t capacity() const { return capacity_; } // bytes rounded up
    // nullptr: the host does not see it.
    uint8_t *mapped() const { return block_ ? block_->mapped : nullptr; }

    uint64_t serial() const { return serial_; } // of handle()
    // Whether no earlier call named that window. The caller holds the device's mutex.
    bool first_use_in(uint64_t window) { return std::exchange(window_, window) != window; }

    // The caller's handle was destroyed: only earlier work sees the content.
    void close() { closed_ = true; }
    bool closed() const { return closed_; }

  private:
    friend class Memory;
    uint64_t serial_, offset_; // with window_: the fields that a repeated op reads
    uint64_t window_ = 0;
    uint64_t bytes_, capacity_;
    std::shared_ptr<Block> block_;
    Numbered<vk::Buffer> unplaced_;
    std::shared_ptr<Device> device_;
    std::atomic<bool> closed_{false};
};

class Memory {
  public:
    // budget: the most bytes to allocate from the driver; 0: the size of the heap.
    Memory(Device &device, uint64_t budget);

    // Throws KPX_TOO_LARGE if a tensor cannot have that many bytes.
    void check_size(uint64_t bytes) const { (void)rounded(bytes); }
    // Throws KPX_TOO_LARGE or KPX_OUT_OF_MEMORY.
    std::shared_ptr<Buffer> allocate(uint64_t bytes);
    // A buffer that gets its memory from place(). Throws KPX_TOO_LARGE.
    std::shared_ptr<Buffer> allocate_later(uint64_t bytes);
    // Gives a buffer memory, unless it has some. The caller holds the device's mutex, unless nobody else knows the
    // buffer. Throws KPX_OUT_OF_MEMORY.
    void place(Buffer &buffer);
    // Zeroed memory that the host also sees; each is an allocation of its own.
    std::shared_ptr<Buffer> allocate_mapped(uint64_t bytes);
    // Device memory that is zero, and must be zero again when it is released. Throws KPX_TOO_LARGE or
    // KPX_OUT_OF_MEMORY, and Missing if the device would have to be waited for, unless `making` is now.
    std::shared_ptr<Buffer> allocate_counters(uint64_t bytes, Making making);
    // A host tensor, made by make_tensor; on many devices it is in the same memory.
    std::shared_ptr<kp::Tensor> make_host_tensor(uint64_t bytes, bool read_by_host);
    uint64_t reserved() const { return reserved_; }
    uint64_t largest() const { return largest_; }

  private:
    friend class Buffer;
    static constexpr uint64_t kSlabBytes = uint64_t(64) << 20;
    static constexpr uint64_t kFirstSlabBytes = uint64_t(4) << 20;
    static constexpr uint64_t kLargeBytes = uint64_t(16) << 20;   // minimum size of a dedicated tensor
    static constexpr uint64_t kCounterBytes = uint64_t(64) << 10; // of a block of counters
    static constexpr uint64_t kSpareBytes = uint64_t(256)
                                            << 20; // the least that is kept of freed blocks, and of empty slabs

    static uint64_t most_spare(const Device &device);

    uint64_t rounded(uint64_t bytes) const;
    std::shared_ptr<Buffer> make_buffer(std::shared_ptr<Block> block, uint64_t offset, uint64_t bytes,
                                        uint64_t capacity);
    std::shared_ptr<Block> find(uint64_t capacity, uint64_t &offset);
    std::shared_ptr<Block> find_spare(uint64_t capacity);
    std::shared_ptr<Block> create(uint64_t bytes, bool slab);
    std::shared_ptr<Block> find_counters(uint64_t capacity, uint64_t &offset);
    // Adds a block with room for that many bytes of counters, and waits until it is zero.
    void add_counters(uint64_t capacity);
    // make(), and again without unused memory that is kept if the driver has none left.
    template <typename Make> auto or_give_back(Make make) -> decltype(make());
    std::shared_ptr<Block> obtain(uint64_t capacity, uint64_t &offset);
    std::shared_ptr<Block> obtain_or_collect(uint64_t capacity, uint64_t &offset);
    uint64_t available(uint64_t most) const;
    void release(const std::shared_ptr<Block> &block, uint64_t offset, uint64_t capacity) noexcept;
    void release_whole(const std::shared_ptr<Block> &block) noexcept;
    void drop(const std::shared_ptr<Block> &block) noexcept;
    void drop_unused();
    void give_back_unused();
    void count_mapped(); // a block, before it is allocated; throws KPX_OUT_OF_MEMORY if there are too many

    Device &device_;
    const uint64_t budget_;
    const uint64_t largest_;
    const uint32_t max_blocks_;
    const uint64_t most_spare_; // bytes of freed blocks, and of empty slabs, that are kept
    std::mutex mutex_;
    std::vector<std::shared_ptr<Block>> slabs_;
    std::vector<std::shared_ptr<Block>> counters_;
    std::vector<std::shared_ptr<Block>> spare_; // freed whole blocks, oldest first
    uint64_t spare_bytes_ = 0;
    uint32_t blocks_ = 0;
    std::atomic<uint64_t> reserved_{0};
};

} // namespace kpx
