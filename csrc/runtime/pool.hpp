// Memory of small objects, kept for reuse: a token makes and frees hundreds at
// once, more than malloc caches.
#pragma once

#include <atomic>
#include <cstddef>
#include <new>
#include <thread>

#include "runtime/prefetch.hpp"

namespace kpx {

extern const size_t most_spare_objects; // of each type

// A lock for a few instructions; a mutex would double their time.
class Busy {
  public:
    explicit Busy(std::atomic_flag &flag) : flag_(flag) {
        while (flag_.test_and_set(std::memory_order_acquire)) {
            std::this_thread::yield();
        }
    }
    ~Busy() { flag_.clear(std::memory_order_release); }
    Busy(const Busy &) = delete;
    Busy &operator=(const Busy &) = delete;

  private:
    std::atomic_flag &flag_;
};

// An allocator for std::allocate_shared.
template <typename T> class Pooled {
  public:
    using value_type = T;

    Pooled() = default;
    template <typename U> Pooled(const Pooled<U> &) {}

    T *allocate(size_t n) {
        void *memory = n == 1 ? spare().take() : nullptr;
        return static_cast<T *>(memory != nullptr ? memory : ::operator new(n * sizeof(T), kLine));
    }
    void deallocate(T *memory, size_t n) noexcept {
        if (n != 1 || !spare().keep(memory)) {
            ::operator delete(memory, kLine);
        }
    }
    friend bool operator==(const Pooled &, const Pooled &) { return true; }

  private:
    static constexpr std::align_val_t kLine{kCacheLine}; // objects start at a line

    // A linked list in the memory itself.
    class Spare {
      public:
        void *take() {
            const Busy lock(busy_);
            Free *first = first_;
            if (first != nullptr) {
                first_ = first->next;
                count_--;
                prefetch(first_, sizeof(T)); // for the next call
            }
            return first;
        }
        bool keep(void *memory) noexcept {
            const Busy lock(busy_);
            if (count_ >= most_spare_objects) {
                return false;
            }
            first_ = new (memory) Free{first_};
            count_++;
            return true;
        }

      private:
        struct Free {
            Free *next;
        };
        static_assert(sizeof(T) >= sizeof(Free) && alignof(T) <= alignof(std::max_align_t));

        std::atomic_flag busy_;
        Free *first_ = nullptr;
        size_t count_ = 0;
    };
    // Never destroyed, because objects could outlive it.
    static Spare &spare() {
        static Spare &list = *new Spare;
        return list;
    }
};

} // namespace kpx
