// Text by fmt, compiled once: every file that calls fmt::format compiles most of fmt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/core.h>

namespace kpx {

std::string vformatted(fmt::string_view pattern, fmt::format_args args);

// fmt::format.
template <typename... Args> std::string formatted(fmt::format_string<Args...> pattern, Args &&...args) {
    return vformatted(pattern, fmt::make_format_args(args...));
}

// Copies as much of a text as fits into a field of a C structure.
template <size_t N> void copy_text(char (&to)[N], const std::string &from) {
    const size_t length = from.copy(to, N - 1);
    to[length] = 0;
}

// Two digits for each byte.
std::string hex(const uint8_t *bytes, size_t count);

} // namespace kpx
