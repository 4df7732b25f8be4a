// The one exception type of the shim: a kpx_result with its numbers and message.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include <fmt/core.h>

#include "abi/kpx.h"

namespace kpx {

class Error : public std::exception {
  public:
    Error(kpx_result result, std::string text, uint64_t wanted = 0, uint64_t free = 0)
        : code(result), requested(wanted), available(free), message(std::move(text)) {}
    const char *what() const noexcept override { return message.c_str(); }

    kpx_result code;
    uint64_t requested; // bytes
    uint64_t available;
    bool of_content = false; // the failure of work that was to write a tensor
    bool of_window = false;  // the failure of work that the stream had before the call, which is lost
    std::string message;
};

// fail() with its arguments type-erased.
[[noreturn]] void throw_error(kpx_result code, fmt::string_view pattern, fmt::format_args args);

// Throws an Error with that message, whose arguments the compiler checks.
template <typename... Args>
[[noreturn]] void fail(kpx_result code, fmt::format_string<Args...> pattern, Args &&...args) {
    throw_error(code, pattern, fmt::make_format_args(args...));
}

} // namespace kpx
