// Vulkan handles with serial numbers.
#pragma once

#include <atomic>
#include <cstdint>

namespace kpx {

// A handle, and a number that no other object of this process ever has: a driver may reuse the handle of a
// destroyed object. Whatever may outlive an object identifies it by its number.
template <typename Handle> struct Numbered {
    Handle handle;
    uint64_t serial = 0; // 0: no object

    Numbered() = default;
    explicit Numbered(Handle made) : handle(made), serial(next()) {}
    operator Handle() const { return handle; }

  private:
    static uint64_t next() {
        static std::atomic<uint64_t> last{0};
        return ++last;
    }
};

} // namespace kpx
