// Loads memory into the processor's cache before it is looked at.
#pragma once

#include <cstddef>

namespace kpx {

constexpr size_t kCacheLine = 64;

// It may be any address.
inline void prefetch(const void *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kCacheLine) {
        __builtin_prefetch(static_cast<const char *>(memory) + at);
    }
}

} // namespace kpx
