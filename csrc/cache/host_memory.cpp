#include "cache/host_memory.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#ifdef __linux__
#include <sys/uio.h>
#include <unistd.h>
#endif

#include "abi/error.hpp"

namespace kpx {

HostPool::~HostPool() {
    for (auto &[capacity, list] : spare_) {
        for (void *memory : list) {
            free(memory);
        }
    }
}

// Rounds up to one of four size classes between powers of two.
uint64_t HostPool::size_class(uint64_t bytes) {
    bytes = bytes < 64 ? 64 : bytes;
    uint64_t step = 16;
    while (bytes > 8 * step) {
        step *= 2;
    }
    return (bytes + step - 1) / step * step;
}

std::shared_ptr<HostMemory> HostPool::own(void *memory, uint64_t bytes, uint64_t capacity) {
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    std::unique_ptr<void, void (*)(void *)> owned(memory, free);
    auto made = std::make_unique<HostMemory>(HostMemory{static_cast<uint8_t *>(memory), bytes});
    (void)owned.release();
    in_use_ += capacity;
    std::shared_ptr<HostPool> pool = shared_from_this();
    return std::shared_ptr<HostMemory>(made.release(), [pool, capacity](HostMemory *gone) {
        pool->give_back(gone->data, capacity);
        delete gone;
    });
}

std::shared_ptr<HostMemory> HostPool::take(uint64_t bytes) {
    const uint64_t capacity = size_class(bytes);
    void *memory = nullptr;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        std::vector<void *> &list = spare_[capacity];
        if (!list.empty()) {
            memory = list.back();
            list.pop_back();
            spare_bytes_ -= capacity;
        }
    }
    return own(memory != nullptr ? memory : malloc(capacity), bytes, capacity);
}

std::shared_ptr<HostMemory> HostPool::zeroed(uint64_t bytes) {
    const uint64_t capacity = size_class(bytes);
    return own(calloc(capacity, 1), bytes, capacity);
}

std::shared_ptr<HostMemory> HostPool::wrap(const void *memory, uint64_t bytes) {
    // Nothing writes it: its tensor is read-only.
    return std::make_shared<HostMemory>(HostMemory{static_cast<uint8_t *>(const_cast<void *>(memory)), bytes});
}

void HostPool::give_back(void *memory, uint64_t capacity) noexcept {
    in_use_ -= capacity;
    std::unique_lock<std::mutex> lock(mutex_);
    bool kept = spare_bytes_ + capacity <= kMostSpare;
    try {
        if (kept) {
            spare_[capacity].push_back(memory);
            spare_bytes_ += capacity;
        }
    } catch (const std::bad_alloc &) {
        kept = false;
    }
    lock.unlock();
    if (!kept) {
        free(memory);
    }
}

void copy_wrapped(void *to, const void *from, uint64_t bytes) {
#ifdef __linux__
    auto *target = static_cast<uint8_t *>(to);
    const auto *source = static_cast<const uint8_t *>(from);
    while (bytes > 0) {
        const iovec here{target, bytes};
        const iovec there{const_cast<uint8_t *>(source), bytes};
        const ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
        if (copied < 0 && errno != EFAULT) {
            break; // not allowed in this container
        }
        if (copied <= 0) {
            fail(KPX_UNREADABLE, "wrapped memory cannot be read: has a mapped file shrunk?");
        }
        target += copied;
        source += copied;
        bytes -= uint64_t(copied);
    }
    memcpy(target, source, bytes);
#else
    memcpy(to, from, bytes);
#endif
}

} // namespace kpx
