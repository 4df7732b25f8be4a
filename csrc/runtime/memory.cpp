#include "runtime/memory.hpp"

#include <algorithm>

#include "abi/error.hpp"
#include "abi/text.hpp"
#include "runtime/device.hpp"
#include "runtime/device_list.hpp"
#include "runtime/pool.hpp"
#include "runtime/tensors.hpp"
#include "runtime/zeroing.hpp"

namespace kpx {

Buffer::Buffer(std::shared_ptr<Device> device, std::shared_ptr<Block> block, uint64_t offset, uint64_t bytes,
               uint64_t capacity)
    : offset_(offset), bytes_(bytes), capacity_(capacity), block_(std::move(block)), device_(std::move(device)) {
    if (!block_) {
        unplaced_ = Numbered<vk::Buffer>(vk::Buffer());
    }
    serial_ = handle().serial;
}

Buffer::~Buffer() {
    if (block_) {
        device_->memory().release(block_, offset_, capacity_);
    }
}

Memory::Memory(Device &device, uint64_t budget)
    : device_(device), budget_(budget), largest_(device.traits().max_tensor_bytes),
      max_blocks_(device.limits().maxMemoryAllocationCount), most_spare_(most_spare(device)) {}

// Drivers take a millisecond to allocate or free 64 MB, so a device with much
// memory keeps what a long prompt frees. It is freed when memory runs out.
uint64_t Memory::most_spare(const Device &device) {
    uint64_t total = 0;
    heap_available(device.physical(), false, &total);
    return std::max(kSpareBytes, total / 32);
}

uint64_t Memory::rounded(uint64_t bytes) const {
    if (bytes > largest_) {
        throw Error(KPX_TOO_LARGE,
                    formatted("a tensor of {} bytes is beyond this device's limit of {}", bytes, largest_), bytes,
                    largest_);
    }
    return whole_units(std::max<uint64_t>(bytes, 1) + kMemoryUnit - 1);
}

template <typename Make> auto Memory::or_give_back(Make make) -> decltype(make()) {
    try {
        return make();
    } catch (const Error &e) {
        if (e.code != KPX_OUT_OF_MEMORY) {
            throw;
        }
    }
    give_back_unused();
    return make();
}

std::shared_ptr<Buffer> Memory::allocate(uint64_t bytes) {
    const uint64_t capacity = rounded(bytes);
    uint64_t offset = 0;
    std::shared_ptr<Block> block = obtain_or_collect(capacity, offset);
    return make_buffer(std::move(block), offset, bytes, capacity);
}

std::shared_ptr<Buffer> Memory::allocate_later(uint64_t bytes) {
    return make_buffer(nullptr, 0, bytes, rounded(bytes));
}

void Memory::place(Buffer &buffer) {
    if (!buffer.placed()) {
        uint64_t offset = 0;
        buffer.block_ = obtain_or_collect(buffer.capacity_, offset);
        buffer.offset_ = offset;
        buffer.serial_ = buffer.handle().serial;
    }
}

std::shared_ptr<Block> Memory::obtain_or_collect(uint64_t capacity, uint64_t &offset) {
    device_.count_allocation();
    return or_give_back([&] { return obtain(capacity, offset); });
}

std::shared_ptr<Buffer> Memory::make_buffer(std::shared_ptr<Block> block, uint64_t offset, uint64_t bytes,
                                            uint64_t capacity) {
    try {
        return std::allocate_shared<Buffer>(Pooled<Buffer>(), device_.shared_from_this(), block, offset, bytes,
                                            capacity);
    } catch (const std::bad_alloc &) {
        if (block) {
            release(block, offset, capacity);
        }
        throw;
    }
}

std::shared_ptr<kp::Tensor> Memory::make_host_tensor(uint64_t bytes, bool read_by_host) {
    return or_give_back([&] { return make_tensor(device_, kp::Tensor::TensorTypes::eHost, bytes, read_by_host); });
}

// Returns unused memory that is kept to the driver.
void Memory::give_back_unused() {
    device_.collect(); // finished work may still hold storage
    std::lock_guard<std::mutex> lock(mutex_);
    drop_unused();
}

void Memory::count_mapped() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (blocks_ >= max_blocks_) {
        throw Error(KPX_OUT_OF_MEMORY, formatted("this device has at most {} allocations", max_blocks_));
    }
    blocks_++;
}

std::shared_ptr<Buffer> Memory::allocate_mapped(uint64_t bytes) {
    const uint64_t capacity = rounded(bytes);
    device_.count_allocation();
    auto block = std::make_shared<Block>();
    or_give_back([&] { count_mapped(); });
    try {
        block->tensor = make_host_tensor(capacity, true);
    } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        blocks_--;
        throw;
    }
    block->handle = buffer_of(*block->tensor);
    block->bytes = capacity;
    block->mapped = static_cast<uint8_t *>(block->tensor->rawData());
    return make_buffer(std::move(block), 0, bytes, capacity);
}

std::shared_ptr<Buffer> Memory::allocate_counters(uint64_t bytes, Making making) {
    const uint64_t capacity = rounded(bytes);
    for (;;) { // what was added may be taken by others
        uint64_t offset = 0;
        if (std::shared_ptr<Block> block = find_counters(capacity, offset)) {
            device_.count_allocation();
            return make_buffer(std::move(block), offset, bytes, capacity);
        }
        if (making == Making::without_mutex) {
            throw Missing([this, capacity] { add_counters(capacity); });
        }
        add_counters(capacity);
    }
}

std::shared_ptr<Block> Memory::find_counters(uint64_t capacity, uint64_t &offset) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_ptr<Block> &block : counters_) {
        offset = block->ranges->take(capacity);
        if (offset != RangeAllocator::kNone) {
            return block;
        }
    }
    return nullptr;
}

// Rare and small, so it waits for the zeroing.
void Memory::add_counters(uint64_t capacity) {
    const uint64_t bytes = std::max(kCounterBytes, capacity);
    std::shared_ptr<Block> block = or_give_back([&] {
        std::lock_guard<std::mutex> lock(mutex_);
        counters_.reserve(counters_.size() + 1);
        std::shared_ptr<Block> made = create(bytes, true);
        made->counters = true;
        return made;
    });
    try {
        zero(device_, *block);
    } catch (...) {
        std::lock_guard<std::mutex> lock(mutex_);
        drop(block);
        throw;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    counters_.push_back(std::move(block));
}

std::shared_ptr<Block> Memory::obtain(uint64_t capacity, uint64_t &offset) {
    std::lock_guard<std::mutex> lock(mutex_);
    offset = 0;
    if (capacity >= kLargeBytes) {
        std::shared_ptr<Block> block = find_spare(capacity);
        return block ? block : create(capacity, false);
    }
    if (std::shared_ptr<Block> block = find(capacity, offset)) {
        return block;
    }
    uint64_t bytes = slabs_.empty() ? std::max(kFirstSlabBytes, capacity) : kSlabBytes;
    bytes = std::min(bytes, std::max(whole_units(available(bytes)), capacity));
    slabs_.reserve(slabs_.size() + 1);
    std::shared_ptr<Block> slab = create(bytes, true);
    offset = slab->ranges->take(capacity);
    slabs_.push_back(slab);
    return slab;
}

std::shared_ptr<Block> Memory::find(uint64_t capacity, uint64_t &offset) {
    for (const std::shared_ptr<Block> &slab : slabs_) {
        offset = slab->ranges->take(capacity);
        if (offset != RangeAllocator::kNone) {
            return slab;
        }
    }
    return nullptr;
}

// A freed block that fits, with at most a quarter of it wasted.
std::shared_ptr<Block> Memory::find_spare(uint64_t capacity) {
    auto best = spare_.end();
    for (auto it = spare_.begin(); it != spare_.end(); ++it) {
        const uint64_t bytes = (*it)->bytes;
        if (bytes >= capacity && bytes - capacity <= capacity / 4 && (best == spare_.end() || bytes < (*best)->bytes)) {
            best = it;
        }
    }
    if (best == spare_.end()) {
        return nullptr;
    }
    std::shared_ptr<Block> block = *best;
    spare_.erase(best);
    spare_bytes_ -= block->bytes;
    return block;
}

uint64_t Memory::available(uint64_t most) const {
    uint64_t bytes = heap_available(device_.physical(), device_.features().memory_budget, nullptr);
    if (!device_.features().memory_budget) {
        uint64_t total = 0;
        heap_available(device_.physical(), false, &total);
        bytes = std::min(bytes, total > reserved_ ? total - reserved_ : 0);
    }
    if (budget_ != 0) {
        bytes = std::min(bytes, budget_ > reserved_ ? budget_ - reserved_ : 0);
    }
    return blocks_ >= max_blocks_ ? 0 : std::min(bytes, most);
}

std::shared_ptr<Block> Memory::create(uint64_t bytes, bool slab) {
    const uint64_t free = available(UINT64_MAX);
    if (bytes > free) {
        throw Error(KPX_OUT_OF_MEMORY, formatted("out of device memory: {} bytes wanted, {} available", bytes, free),
                    bytes, free);
    }
    auto block = std::make_shared<Block>();
    try {
        block->tensor = make_tensor(device_, kp::Tensor::TensorTypes::eStorage, bytes);
    } catch (const Error &e) {
        if (e.code == KPX_OUT_OF_MEMORY) {
            throw Error(e.code, e.message, bytes, free);
        }
        throw;
    }
    block->handle = buffer_of(*block->tensor);
    block->bytes = bytes;
    if (slab) {
        block->ranges = std::make_unique<RangeAllocator>(bytes);
    }
    reserved_ += bytes;
    blocks_++;
    return block;
}

void Memory::release(const std::shared_ptr<Block> &block, uint64_t offset, uint64_t capacity) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    if (block->mapped != nullptr) {
        blocks_--;
        return;
    }
    if (block->counters) {
        block->ranges->give_back(offset, capacity);
        return;
    }
    if (!block->ranges) {
        release_whole(block);
        return;
    }
    block->ranges->give_back(offset, capacity);
    uint64_t unused = 0;
    for (const std::shared_ptr<Block> &slab : slabs_) {
        unused += slab->ranges->empty() ? slab->bytes : 0;
    }
    if (block->ranges->empty() && unused > most_spare_) {
        slabs_.erase(std::find(slabs_.begin(), slabs_.end(), block));
        drop(block);
    }
}

void Memory::release_whole(const std::shared_ptr<Block> &block) noexcept {
    try {
        spare_.push_back(block);
    } catch (const std::bad_alloc &) {
        drop(block);
        return;
    }
    spare_bytes_ += block->bytes;
    while (spare_bytes_ > most_spare_) {
        spare_bytes_ -= spare_.front()->bytes;
        drop(spare_.front());
        spare_.erase(spare_.begin());
    }
}

// The tensor itself is freed with the last reference to the block, which the caller has.
void Memory::drop(const std::shared_ptr<Block> &block) noexcept {
    reserved_ -= block->bytes;
    blocks_--;
}

void Memory::drop_unused() {
    for (const std::shared_ptr<Block> &block : spare_) {
        drop(block);
    }
    spare_.clear();
    spare_bytes_ = 0;
    auto unused =
        std::stable_partition(slabs_.begin(), slabs_.end(), [](const auto &s) { return !s->ranges->empty(); });
    for (auto it = unused; it != slabs_.end(); ++it) {
        drop(*it);
    }
    slabs_.erase(unused, slabs_.end());
}

} // namespace kpx
