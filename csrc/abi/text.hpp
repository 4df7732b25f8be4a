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

// Two digits for each byte.
std::string hex(const uint8_t *bytes, size_t count);

} // namespace kpx
